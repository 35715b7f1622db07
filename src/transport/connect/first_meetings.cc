#include "transport/connect/first_meetings.h"

#include <new>

namespace nezha::transport {

Result<Mesh> FirstMeetings::run(RailOpener& opener, const Home& home,
                                std::vector<RailListener>& listeners) {
  auto loop = progress::Loop::create(home.loop.clock(), 0);
  if (!loop) return loop.status();
  progress::Loop::Baton baton(**loop);
  auto made = Meetings::create(request_, opener, **loop, home, *this, std::move(listeners));
  if (!made) return made.status();
  // Go before their loop, whatever is thrown.
  const std::unique_ptr<Meetings> meetings = std::move(*made);
  meetings_ = meetings.get();
  (*loop)->set_client(this);
  for (const PeerAddress& other : request_.ranks) {
    if (other.rank == request_.rank || !is_candidate(opener, other.rank)) continue;
    ++open_;
    meetings_->meet(other.rank, {});
  }
  run(home.loop.clock().now());
  // Every meeting ends by itself.
  baton.drive_to_the_end([&] { return is_over(); }, kNever);
  if (no_memory_) throw std::bad_alloc();
  meetings_->give_up();
  listeners = meetings_->release_listeners();
  NEZHA_RETURN_IF_ERROR(outcome());
  return std::move(mesh_);
}

// On rails that need not reach everybody nobody waits for who cannot be reached.
bool FirstMeetings::is_candidate(RailOpener& opener, int peer) const {
  return needed_ == Needed::everybody || !opener.candidates(request_, peer, 0).empty();
}

bool FirstMeetings::run(Nanoseconds now) {
  meetings_->run(now);
  return false;
}

void FirstMeetings::on_joined(std::unique_ptr<Connection> connection) {
  mesh_.connections.push_back(std::move(connection));
}

void FirstMeetings::on_met(const Met& met) {
  --open_;
  mesh_.left_out.insert(mesh_.left_out.end(), met.left_out.begin(), met.left_out.end());
  if (met.lost.is_ok()) return;
  lost_[met.peer] = met.lost;
  // The job will fail: what is under way is waited for, so that the error names it.
  if (needed_ == Needed::everybody) meetings_->begin_no_more();
}

bool FirstMeetings::is_over() const {
  if (no_memory_ || open_ == 0) return true;
  return needed_ == Needed::everybody && !lost_.empty() && !meetings_->is_dialling();
}

Status FirstMeetings::outcome() const {
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
