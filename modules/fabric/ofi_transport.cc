#include "fabric/ofi_transport.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "transport/connect/mesh_builder.h"
#include "transport/connect/same_network.h"
#include "fabric/fabric_sockets.h"
#include "fabric/ofi_wire.h"
#include "fabric/port_name.h"
#include "fabric/port_test.h"
#include "transport/rail_socket.h"

namespace nezha::transport {
namespace {

bool may_meet(const RailAddress& a, const RailAddress& b) {
  return (a.address.empty() && b.address.empty()) || same_network(a, b);
}

// Names of shared memory hold the process: two ranks of one would close segments under each other
// (FabricRail::keeps_ports).
bool shares_memory(const PeerAddress& lower, const RailAddress& a, const PeerAddress& higher,
                   const RailAddress& b) {
  return lower.host == higher.host && a.name != b.name;
}

// Which rails of two ranks go together, as the lower one sees it; both compute the same. First those of
// one network, then whatever is left, for routed fabrics.
std::vector<RailPair> pair_up(const PeerAddress& lower, const PeerAddress& higher) {
  std::vector<RailPair> pairs;
  std::vector<bool> taken(lower.rails.size());
  std::vector<bool> used(higher.rails.size());
  for (const bool routed : {false, true}) {
    for (size_t mine = 0; mine < lower.rails.size(); ++mine) {
      for (size_t theirs = 0; theirs < higher.rails.size() && !taken[mine]; ++theirs) {
        const RailAddress& a = lower.rails[mine];
        const RailAddress& b = higher.rails[theirs];
        const bool reachable = a.variant == "shm" ? shares_memory(lower, a, higher, b)
                                                   : routed || may_meet(a, b);
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

Status check_protection(const MeshRequest& request) {
  if (!request.tls && !request.integrity) return Status::ok();
  return error(Code::unsupported, "rank %d: %s=on needs rails of TCP; RDMA rails are not %s (take "
               "the ofi: entries out of NEZHA_RAILS)", request.rank, request.tls ? "tls" : "integrity",
               request.tls ? "encrypted" : "authenticated behind the handshake");
}

// "" where nobody can be met.
std::string control_address(const RailAddress& rail, const FabricRail& opened) {
  if (!rail.address.empty()) return rail.address;
  if (rail.variant == "shm") return "127.0.0.1";
  const std::string own = address_of_device(opened.net_device());
  return own.empty() ? address_of_device("") : own;
}

}  // namespace

Status OfiTransport::listen(std::vector<RailAddress>& rails, uint16_t port_low, uint16_t port_high) {
  for (RailAddress& rail : rails) {
    const std::string domain = rail.address.empty() ? rail.name : "";
    auto opened = FabricRail::open(rail.variant, domain, rail.address);
    if (!opened) return opened.status();
    ControlAddress control{0, control_address(rail, **opened)};
    if (control.address.empty()) {
      return error(Code::unsupported, "rail %s has no network address, and this host has none on "
                   "which other ranks could authenticate; give one of its devices an address",
                   rail.name.c_str());
    }
    auto listener = listen_on({control.address, ""}, port_low, port_high, &control.port);
    if (!listener) return listener.status();
    rail.blob = encode(control);
    if (rail.variant == "shm") rail.name += ":" + std::to_string(getpid());
    listeners_.push_back({std::move(*listener), static_cast<int>(rails_.size())});
    rails_.push_back(std::move(*opened));
  }
  return Status::ok();
}

Result<Mesh> OfiTransport::connect(const MeshRequest& request, progress::Loop& loop,
                                   ConnectionEvents& events) {
  NEZHA_RETURN_IF_ERROR(check_protection(request));
  return MeshBuilder(request, Needed::nobody).run(*this, {loop, events}, listeners_);
}

Result<std::unique_ptr<ConnectionManager>> OfiTransport::manage(const MeshRequest& request,
                                                     progress::Loop& loop, ConnectionEvents& events,
                                                     JoinEvents& joins) {
  NEZHA_RETURN_IF_ERROR(check_protection(request));
  auto made = Wireup::create(request, *this, loop, {loop, events}, joins, std::move(listeners_));
  if (!made) return made.status();
  return std::unique_ptr<ConnectionManager>(std::move(*made));
}

// --------------------------------------------------------------------------------- RailOpener

// The pairs are disjoint: nothing is left over.
std::vector<RailPair> OfiTransport::candidates(const MeshRequest& request, int peer, int round) {
  if (round > 0) return {};
  const PeerAddress& me = request.ranks[static_cast<size_t>(request.rank)];
  const PeerAddress& other = request.ranks[static_cast<size_t>(peer)];
  const bool lower = request.rank < peer;
  std::vector<RailPair> pairs = lower ? pair_up(me, other) : pair_up(other, me);
  for (RailPair& pair : pairs) {
    if (!lower) std::swap(pair.mine, pair.theirs);
  }
  return pairs;
}

// From the rail's own device, so that no other network answers in its place.
Result<Descriptor> OfiTransport::dial(const MeshRequest& request, const Path& path) {
  const ControlAddress mine = control_address_of(request.rail_of(request.rank, path.rail).blob);
  const ControlAddress theirs = control_address_of(request.rail_of(path.peer, path.peer_rail).blob);
  const std::string device = request.is_same_host(path.peer) ? "" : device_with(mine.address);
  return nezha::transport::dial({mine.address, device}, theirs.address, theirs.port);
}

Result<std::unique_ptr<RailTest>> OfiTransport::test(const Proved& proved) {
  const size_t rail = proved.dialer ? proved.hello.dialer_rail : proved.hello.acceptor_rail;
  return PortTest::open(*rails_[rail], proved);
}

std::unique_ptr<Wire> OfiTransport::make_wire(const MeshRequest& request, progress::Loop& loop,
                                              Handshake& handshake) {
  const std::unique_ptr<RailTest> released = handshake.release_test();
  auto& test = static_cast<PortTest&>(*released);  // as `test` made it
  const std::string name = describe(request.rail_of(request.rank, handshake.rail())) + " -> " +
                           describe(request.rail_of(handshake.peer(), handshake.peer_rail())) +
                           " (rank " + std::to_string(handshake.peer()) + ")";
  close_fabric_sockets_on_exec();
  return std::make_unique<OfiWire>(loop, test.release_port(), test.peer(), name, test.tokens());
}

std::vector<std::string> OfiTransport::devices(const MeshRequest&) {
  std::vector<std::string> devices;
  for (const auto& rail : rails_) devices.push_back(rail->net_device());
  return devices;
}

}  // namespace nezha::transport
