#include "transport/ofi/ofi_transport.h"

#include <unistd.h>

#include <algorithm>

#include "base/ip_prefix.h"
#include "transport/ofi/fabric_sockets.h"
#include "transport/ofi/ofi_wire.h"
#include "transport/ofi/ofi_rejoin.h"

namespace nezha::transport {
namespace {

bool same_network(const RailAddress& a, const RailAddress& b) {
  auto first = parse_ip_prefix(a.address);
  auto second = parse_ip_prefix(b.address);
  if (!first || !second) return a.address.empty() && b.address.empty();
  first->length = a.prefix_length;
  second->length = b.prefix_length;
  return first->length >= second->length ? first->contains(*second) : second->contains(*first);
}

struct Pairing {
  int lower = 0;
  int higher = 0;
};

// Names of shared memory hold the process: two ranks of one would close segments under each other
// (FabricRail::keeps_ports).
bool shares_memory(const PeerAddress& lower, const RailAddress& a, const PeerAddress& higher,
                   const RailAddress& b) {
  return lower.host == higher.host && a.name != b.name;
}

// Which rails of two ranks go together; both compute the same. First those of one network, then whatever
// is left, for routed fabrics.
std::vector<Pairing> pair_up(const PeerAddress& lower, const PeerAddress& higher) {
  std::vector<Pairing> pairs;
  std::vector<bool> taken(lower.rails.size());
  std::vector<bool> used(higher.rails.size());
  for (const bool routed : {false, true}) {
    for (size_t mine = 0; mine < lower.rails.size(); ++mine) {
      for (size_t theirs = 0; theirs < higher.rails.size() && !taken[mine]; ++theirs) {
        const RailAddress& a = lower.rails[mine];
        const RailAddress& b = higher.rails[theirs];
        const bool reachable = a.variant == "shm" ? shares_memory(lower, a, higher, b)
                                                   : routed || same_network(a, b);
        if (used[theirs] || a.variant != b.variant || !reachable) continue;
        taken[mine] = used[theirs] = true;
        pairs.push_back({static_cast<int>(mine), static_cast<int>(theirs)});
      }
    }
  }
  return pairs;
}

std::string describe(const RailAddress& rail) {
  return rail.variant + " " + (rail.address.empty() ? rail.name : rail.address);
}

std::string describe_refusal(const MeshRequest& request, const OfiRefused& refused) {
  const auto& mine = request.ranks[static_cast<size_t>(request.rank)].rails;
  return "rail " + mine[static_cast<size_t>(refused.path.rail)].name + " of rank " +
         std::to_string(request.rank) + " is not used towards rank " +
         std::to_string(refused.path.peer) + ": " + refused.reason;
}

}  // namespace

Status OfiTransport::listen(std::vector<RailAddress>& rails, uint16_t, uint16_t) {
  for (RailAddress& rail : rails) {
    const std::string domain = rail.address.empty() ? rail.name : "";
    auto opened = FabricRail::open(rail.variant, domain, rail.address);
    if (!opened) return opened.status();
    auto door = OfiMeeting::open_door(**opened);
    if (!door) return door.status();
    rail.blob = (*door)->name();
    if (rail.variant == "shm") rail.name += ":" + std::to_string(getpid());
    rails_.push_back(std::move(*opened));
    doors_.push_back(std::move(*door));
  }
  return Status::ok();
}

Result<Mesh> OfiTransport::connect(const MeshRequest& request, progress::Loop& loop,
                                   ConnectionEvents& events) {
  if (request.tls || request.integrity) {
    return error(Code::unsupported, "rank %d: %s=on needs rails of TCP; RDMA rails are not %s (take "
                 "the ofi: entries out of NEZHA_RAILS)", request.rank, request.tls ? "tls" : "integrity",
                 request.tls ? "encrypted" : "authenticated behind the handshake");
  }
  std::vector<FabricRail*> rails;
  for (const auto& rail : rails_) rails.push_back(rail.get());
  meeting_ = std::make_unique<OfiMeeting>(request, std::move(rails));
  NEZHA_RETURN_IF_ERROR(meeting_->take_doors(std::move(doors_)));
  const Nanoseconds begin = loop.clock().now();
  const PeerAddress& me = request.ranks[static_cast<size_t>(request.rank)];
  size_t wanted = 0;
  for (const PeerAddress& other : request.ranks) {
    if (other.rank == request.rank) continue;
    const bool dials = request.rank < other.rank;
    for (const Pairing& pair : dials ? pair_up(me, other) : pair_up(other, me)) {
      for (int lane = 0; lane < request.streams_per_rail; ++lane) {
        ++wanted;
        if (!dials) continue;
        meeting_->dial({other.rank, pair.lower, pair.higher, lane}, 0, begin, request.probe_timeout,
                       false);
      }
    }
  }
  const Nanoseconds deadline = begin + request.probe_timeout + kSecond;
  while (meeting_->joined.size() + meeting_->refused.size() < wanted) {
    const Nanoseconds now = loop.clock().now();
    if (now >= deadline) break;
    if (!meeting_->turn(now)) usleep(50);
  }
  Mesh mesh;
  for (const OfiRefused& refused : meeting_->refused) {
    mesh.left_out.push_back(describe_refusal(request, refused));
  }
  meeting_->refused.clear();
  for (OfiJoined& joined : meeting_->joined) {
    auto connection = make_ofi_connection(request, loop, events, joined);
    if (!connection) return connection.status();
    mesh.connections.push_back(std::move(*connection));
  }
  meeting_->joined.clear();
  close_fabric_sockets_on_exec();
  return mesh;
}

Result<std::unique_ptr<Rejoin>> OfiTransport::rejoin(const MeshRequest& request,
                                                     progress::Loop& loop, ConnectionEvents& events,
                                                     RejoinEvents& joins) {
  std::vector<std::string> devices;
  for (const auto& rail : rails_) devices.push_back(rail->net_device());
  auto made = OfiRejoin::create(request, loop, events, joins, std::move(meeting_), devices);
  if (!made) return made.status();
  return std::unique_ptr<Rejoin>(std::move(*made));
}

Result<std::unique_ptr<Connection>> make_ofi_connection(const MeshRequest& request, progress::Loop& loop,
                                                    ConnectionEvents& events, OfiJoined& joined) {
  const Path& path = joined.path;
  const auto rail_of = [&](int rank, int rail) -> const RailAddress& {
    return request.ranks[static_cast<size_t>(rank)].rails[static_cast<size_t>(rail)];
  };
  const std::string name = describe(rail_of(request.rank, path.rail)) + " -> " +
                           describe(rail_of(path.peer, path.peer_rail)) + " (rank " +
                           std::to_string(path.peer) + ")";
  auto connection = std::make_unique<Connection>(
      events,
      std::make_unique<OfiWire>(loop, std::move(joined.port), joined.to, name,
                                OfiTokens{joined.token_out, joined.token_in}),
      ConnectionOptions{request.payload_checksum, request.control_frames_max});
  identify(*connection, path, joined.epoch, joined.latency_s);
  NEZHA_RETURN_IF_ERROR(connection->start());
  return connection;
}

}  // namespace nezha::transport
