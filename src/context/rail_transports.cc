#include "context/rail_transports.h"

#include <algorithm>
#include <functional>
#include <map>

#include "transport/rail_kind.h"
#include "transport/shm/shm_opener.h"
#include "transport/tcp/tcp_transport.h"

namespace nezha::context {

using transport::MeshRequest;
using transport::Path;
using transport::RailAddress;

namespace {

// TCP; between ranks of one host memory that they share.
class TcpAndShm final : public transport::Transport {
 public:
  Status listen(std::vector<RailAddress>& rails, uint16_t port_low, uint16_t port_high) override {
    return tcp_.listen(rails, port_low, port_high);
  }
  Result<transport::Mesh> connect(const MeshRequest& request, progress::Loop& loop,
                                  transport::ConnectionEvents& events) override {
    shm_.begin(request);
    auto mesh = tcp_.connect(request, loop, events);
    if (mesh) mesh->apart = shm_.apart();
    return mesh;
  }
  Result<std::unique_ptr<transport::ConnectionManager>> manage(const MeshRequest& request,
                                                               progress::Loop& loop,
                                                    transport::ConnectionEvents& events,
                                                    transport::JoinEvents& joins) override {
    shm_.begin(request);
    return tcp_.manage(request, loop, events, joins);
  }

 private:
  transport::ShmOpener shm_{transport::tcp_opener()};
  transport::TcpTransport tcp_{shm_};
};

int place_of(const RailTransports::Places& places, int rank, int rail) {
  return places[static_cast<size_t>(rank)][static_cast<size_t>(rail)];
}

// One mechanism's part in making connections again, with the rails of its own numbering.
class Part final : public transport::JoinEvents {
 public:
  Part(int rank, RailTransports::Places places, transport::JoinEvents& joins)
      : rank_(rank), places_(std::move(places)), joins_(joins) {}

  void on_connect_done(const transport::ConnectResult& result) override { when_done(result); }
  void on_connection_requested(int peer) override { joins_.on_connection_requested(peer); }
  void on_joined(std::unique_ptr<transport::Connection> connection) override {
    connection->peer_rail = place_of(places_, connection->peer, connection->peer_rail);
    connection->rail = place_of(places_, rank_, connection->rail);
    joins_.on_joined(std::move(connection));
  }
  void on_dial_failed(const Path& path, transport::DialOutcome outcome,
                      const std::string& reason) override {
    joins_.on_dial_failed(outside(path), outcome, reason);
  }
  void on_probed(const Path& path, transport::Probed probed) override {
    joins_.on_probed(outside(path), probed);
  }
  void on_carrier(int rail, bool up) override {
    joins_.on_carrier(place_of(places_, rank_, rail), up);
  }
  void on_devices_changed() override { joins_.on_devices_changed(); }

  std::vector<transport::PlacedRail> find_rails() {
    auto found = manager->find_rails();
    for (transport::PlacedRail& each : found) each.rail = place_of(places_, rank_, each.rail);
    return found;
  }
  void place_rail(int peer, int rail, std::string_view where) {
    const int own = own_rail(peer, rail);
    if (own >= 0) manager->place_rail(peer, own, where);
  }

  // `own`: the path with the rail numbers of this transport alone. False when another transport has the
  // rail.
  bool inside(const Path& path, Path* own) const {
    *own = {path.peer, own_rail(rank_, path.rail), own_rail(path.peer, path.peer_rail), path.lane};
    return own->rail >= 0 && own->peer_rail >= 0;
  }

  std::vector<transport::RailPair> inside(int peer, const std::vector<transport::RailPair>& all) const {
    std::vector<transport::RailPair> own;
    Path path;
    for (const transport::RailPair& pair : all) {
      if (inside({peer, pair.mine, pair.theirs, 0}, &path)) own.push_back({path.rail, path.peer_rail});
    }
    return own;
  }

  std::unique_ptr<transport::ConnectionManager> manager;
  std::function<void(const transport::ConnectResult&)> when_done;

 private:
  // -1: another mechanism's.
  int own_rail(int rank, int rail) const {
    const auto& of_rank = places_[static_cast<size_t>(rank)];
    const auto found = std::find(of_rank.begin(), of_rank.end(), rail);
    return found == of_rank.end() ? -1 : static_cast<int>(found - of_rank.begin());
  }
  Path outside(const Path& path) const {
    return {path.peer, place_of(places_, rank_, path.rail),
            place_of(places_, path.peer, path.peer_rail), path.lane};
  }

  const int rank_;
  const RailTransports::Places places_;
  transport::JoinEvents& joins_;
};

// Each mechanism connects with a peer, which is reached when one of them reaches it.
class Parts final : public transport::ConnectionManager {
 public:
  explicit Parts(transport::JoinEvents& joins) : joins_(joins) {}
  void add(std::unique_ptr<Part> part) {
    part->when_done = [this](const transport::ConnectResult& result) { gather(result); };
    parts_.push_back(std::move(part));
  }

  void connect(int peer, const std::vector<transport::RailPair>& in_use) override {
    gathered_[peer] = {};
    for (const auto& part : parts_) part->manager->connect(peer, part->inside(peer, in_use));
  }

  void dial(const Path& path, uint32_t epoch, Nanoseconds patience) override {
    Path own;
    for (const auto& part : parts_) {
      if (part->inside(path, &own)) part->manager->dial(own, epoch, patience);
    }
  }
  void probe(const Path& path, Nanoseconds patience) override {
    Path own;
    for (const auto& part : parts_) {
      if (part->inside(path, &own)) part->manager->probe(own, patience);
    }
  }
  std::vector<transport::PlacedRail> find_rails() override {
    std::vector<transport::PlacedRail> all;
    for (const auto& part : parts_) {
      for (transport::PlacedRail& each : part->find_rails()) all.push_back(std::move(each));
    }
    return all;
  }
  void place_rail(int peer, int rail, std::string_view where) override {
    for (const auto& part : parts_) part->place_rail(peer, rail, where);
  }
  void run(Nanoseconds now) override {
    for (const auto& part : parts_) part->manager->run(now);
  }
  bool is_accepting() const override {
    return std::any_of(parts_.begin(), parts_.end(),
                       [](const auto& part) { return part->manager->is_accepting(); });
  }
  Nanoseconds next_wakeup() const override {
    Nanoseconds soonest = kNever;
    for (const auto& part : parts_) soonest = std::min(soonest, part->manager->next_wakeup());
    return soonest;
  }
  void stop() override {
    for (const auto& part : parts_) part->manager->stop();
  }

 private:
  void gather(const transport::ConnectResult& result) {
    std::vector<transport::ConnectResult>& all = gathered_[result.peer];
    all.push_back(result);
    if (all.size() < parts_.size()) return;
    transport::ConnectResult sum = all.front();
    for (size_t i = 1; i < all.size(); ++i) {
      sum.answered |= all[i].answered;
      sum.refused |= all[i].refused;
      sum.left_out.insert(sum.left_out.end(), all[i].left_out.begin(), all[i].left_out.end());
      if (sum.lost.is_ok() || all[i].lost.is_ok()) {
        sum.lost = Status::ok();
      } else {
        sum.lost = Status(sum.lost.code(), sum.lost.message() + "; " + all[i].lost.message());
      }
    }
    gathered_.erase(result.peer);
    joins_.on_connect_done(sum);
  }

  transport::JoinEvents& joins_;
  std::vector<std::unique_ptr<Part>> parts_;
  std::map<int, std::vector<transport::ConnectResult>> gathered_;  // by peer
};

}  // namespace

RailTransports::RailTransports() {
  kinds_.push_back({"tcp", true, std::make_unique<TcpAndShm>(), {}, false});
}

Status RailTransports::listen(std::vector<RailAddress>& rails, uint16_t port_low,
                              uint16_t port_high) {
  for (const RailAddress& rail : rails) {
    const bool known = std::any_of(kinds_.begin(), kinds_.end(),
                                   [&](const Kind& kind) { return kind.name == rail.transport; });
    if (known) continue;
    auto kind = transport::rail_kind(rail.transport);
    if (!kind) return kind.status();
    kinds_.push_back({(*kind)->name(), false, (*kind)->make(), {}, false});
  }
  for (Kind& kind : kinds_) {
    std::vector<RailAddress> own;
    for (const RailAddress& rail : rails) {
      if (rail.transport == kind.name) own.push_back(rail);
    }
    if (own.empty()) continue;
    NEZHA_RETURN_IF_ERROR(kind.transport->listen(own, port_low, port_high));
    size_t next = 0;
    for (RailAddress& rail : rails) {
      if (rail.transport == kind.name) rail = own[next++];
    }
  }
  return Status::ok();
}

Result<MeshRequest> RailTransports::part_of(const MeshRequest& request, Kind& kind) {
  MeshRequest part = request;
  kind.places.assign(request.ranks.size(), {});
  for (size_t rank = 0; rank < request.ranks.size(); ++rank) {
    part.ranks[rank].rails.clear();
    const auto& rails = request.ranks[rank].rails;
    for (size_t rail = 0; rail < rails.size(); ++rail) {
      if (rails[rail].transport != kind.name) continue;
      part.ranks[rank].rails.push_back(rails[rail]);
      kind.places[rank].push_back(static_cast<int>(rail));
    }
  }
  const auto with = std::count_if(kind.places.begin(), kind.places.end(),
                                  [](const auto& rails) { return !rails.empty(); });
  kind.in_use = !kind.places[static_cast<size_t>(request.rank)].empty();
  if (kind.everywhere && with > 0 && static_cast<size_t>(with) < request.ranks.size()) {
    return error(Code::invalid_argument, "rank %d: some ranks have rails of %s and some have not; "
                 "give every rank one, or none", request.rank, std::string(kind.name).c_str());
  }
  return part;
}

Result<transport::Mesh> RailTransports::connect(const MeshRequest& request, progress::Loop& loop,
                                                transport::ConnectionEvents& events) {
  transport::Mesh all;
  for (Kind& kind : kinds_) {
    auto part = part_of(request, kind);
    if (!part) return part.status();
    if (!kind.in_use) continue;
    auto mesh = kind.transport->connect(*part, loop, events);
    if (!mesh) return mesh.status();
    for (auto& connection : mesh->connections) {
      connection->peer_rail = place_of(kind.places, connection->peer, connection->peer_rail);
      connection->rail = place_of(kind.places, request.rank, connection->rail);
      all.connections.push_back(std::move(connection));
    }
    all.left_out.insert(all.left_out.end(), mesh->left_out.begin(), mesh->left_out.end());
    all.apart.insert(all.apart.end(), mesh->apart.begin(), mesh->apart.end());
  }
  for (const transport::PeerAddress& other : request.ranks) {
    const bool reached = std::any_of(all.connections.begin(), all.connections.end(),
                                     [&](const auto& each) { return each->peer == other.rank; });
    if (reached || other.rank == request.rank) continue;
    std::string why;
    for (const std::string& sentence : all.left_out) why += "; " + sentence;
    return error(Code::peer_lost, "rank %d reaches rank %d on no rail%s", request.rank, other.rank,
                 why.c_str()).with_peer(other.rank);
  }
  return all;
}

Result<std::unique_ptr<transport::ConnectionManager>> RailTransports::manage(const MeshRequest& request,
                                                                  progress::Loop& loop,
                                                                  transport::ConnectionEvents& events,
                                                                  transport::JoinEvents& joins) {
  auto parts = std::make_unique<Parts>(joins);
  for (Kind& kind : kinds_) {
    auto made = part_of(request, kind);
    if (!made) return made.status();
    const MeshRequest own = std::move(*made);
    if (!kind.in_use) continue;
    auto part = std::make_unique<Part>(request.rank, std::move(kind.places), joins);
    auto manager = kind.transport->manage(own, loop, events, *part);
    if (!manager) return manager.status();
    part->manager = std::move(*manager);
    parts->add(std::move(part));
  }
  return std::unique_ptr<transport::ConnectionManager>(std::move(parts));
}

}  // namespace nezha::context
