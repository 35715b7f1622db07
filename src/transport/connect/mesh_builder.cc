#include "transport/connect/mesh_builder.h"

#include <new>

namespace nezha::transport {

Result<Mesh> MeshBuilder::run(RailOpener& opener, const Home& home,
                                std::vector<RailListener>& listeners) {
  auto loop = progress::Loop::create(home.loop.clock(), 0);
  if (!loop) return loop.status();
  progress::Loop::Lock lock(**loop);
  auto made = Wireup::create(request_, opener, **loop, home, *this, std::move(listeners));
  if (!made) return made.status();
  // The attempts are destroyed before their loop, whatever is thrown.
  const std::unique_ptr<Wireup> attempts = std::move(*made);
  wireup_ = attempts.get();
  (*loop)->set_client(this);
  for (const PeerAddress& other : request_.ranks) {
    if (other.rank == request_.rank || !is_candidate(opener, other.rank)) continue;
    ++open_;
    wireup_->connect(other.rank, {});
  }
  run(home.loop.clock().now());
  // Every attempt ends by itself.
  lock.drive_to_the_end([&] { return is_over(); }, kNever);
  if (no_memory_) throw std::bad_alloc();
  if (!is_over()) {
    return error(Code::timed_out, "rank %d was interrupted while it connected to the other ranks",
                 request_.rank);
  }
  wireup_->give_up();
  listeners = wireup_->release_listeners();
  NEZHA_RETURN_IF_ERROR(outcome());
  return std::move(mesh_);
}

// Where rails need not reach everybody, nobody waits for a peer that no rail can reach.
bool MeshBuilder::is_candidate(RailOpener& opener, int peer) const {
  return needed_ == Needed::everybody || !opener.candidates(request_, peer, 0).empty();
}

bool MeshBuilder::run(Nanoseconds now) {
  wireup_->run(now);
  return false;
}

void MeshBuilder::on_joined(std::unique_ptr<Connection> connection) {
  mesh_.connections.push_back(std::move(connection));
}

void MeshBuilder::on_connect_done(const ConnectResult& result) {
  --open_;
  mesh_.left_out.insert(mesh_.left_out.end(), result.left_out.begin(), result.left_out.end());
  if (result.lost.is_ok()) return;
  lost_[result.peer] = result.lost;
  // The job will fail. Attempts under way are waited for, so that the error names them, too.
  if (needed_ == Needed::everybody) wireup_->begin_no_more();
}

bool MeshBuilder::is_over() const {
  if (no_memory_ || open_ == 0) return true;
  return needed_ == Needed::everybody && !lost_.empty() && !wireup_->is_dialling();
}

Status MeshBuilder::outcome() const {
  if (needed_ == Needed::nobody || lost_.empty()) return Status::ok();
  std::string sentences;
  Code code = Code::peer_lost;
  for (const auto& [peer, lost] : lost_) {
    const bool unusable = lost.code() != Code::peer_lost && lost.code() != Code::exhausted;
    if (unusable) return lost;
    if (lost.code() == Code::exhausted) code = Code::exhausted;
    sentences += (sentences.empty() ? "" : "; ") + lost.message();
  }
  return unreached(request_.rank, code, lost_.begin()->first, sentences);
}

}  // namespace nezha::transport
