#include "transport/tcp/tcp_opener.h"

#include "base/log.h"
#include "transport/connect/handshake.h"
#include "transport/rail_socket.h"
#include "transport/tcp/tcp_address.h"
#include "transport/tcp/tcp_echo.h"
#include "transport/tcp/tcp_wire.h"
#include "transport/transport.h"

namespace nezha::transport {
namespace {

// Listens on both ports of a place, or on none.
Status listen_at(TcpPlace& place, const std::string& name, uint16_t port_low, uint16_t port_high,
                 std::vector<Descriptor>& sockets) {
  auto device = listen_on({place.address, name}, port_low, port_high, &place.ports.device);
  if (!device) return device.status();
  auto local = listen_on({place.address, ""}, port_low, port_high, &place.ports.local);
  if (!local) return local.status();
  sockets.push_back(std::move(*device));
  sockets.push_back(std::move(*local));
  return Status::ok();
}

}  // namespace

std::vector<RailPair> TcpOpener::candidates(const MeshRequest& request, int peer, int round) {
  const auto& mine = request.ranks[static_cast<size_t>(request.rank)].rails;
  const auto& theirs = request.ranks[static_cast<size_t>(peer)].rails;
  const bool same_host = request.is_same_host(peer);
  std::vector<RailPair> pairs;
  for (size_t i = 0; i < mine.size(); ++i) {
    for (size_t k = 0; k < theirs.size(); ++k) {
      if (mine[i].is_missing() || theirs[k].is_missing()) continue;
      const auto route = route_between(mine[i], theirs[k]);
      const bool near = route && route->near;
      const bool first = near && (!same_host || mine[i].name == theirs[k].name);
      if (round == 0 ? first : !near) pairs.push_back({static_cast<int>(i), static_cast<int>(k)});
    }
  }
  return pairs;
}

Result<Descriptor> TcpOpener::dial(const MeshRequest& request, const Path& path) {
  const RailAddress& mine = request.rail_of(request.rank, path.rail);
  const RailAddress& theirs = request.rail_of(path.peer, path.peer_rail);
  const bool same_host = request.is_same_host(path.peer);
  const auto route = route_between(mine, theirs);
  const TcpPlace from = route ? route->from : places_of(mine).front();
  const TcpPlace to = route ? route->to : places_of(theirs).front();
  return nezha::transport::dial({from.address, same_host ? "" : mine.name}, to.address,
                                same_host ? to.ports.local : to.ports.device);
}

Result<std::vector<Descriptor>> TcpOpener::listen(const MeshRequest& request, RailAddress& rail) {
  std::vector<TcpPlace> places;
  for (const DeviceAddress& each : addresses_of_device(rail.name)) {
    places.push_back({each.address, each.prefix_length, {}});
  }
  if (places.empty()) return std::vector<Descriptor>();
  rail.address = places.front().address;
  rail.prefix_length = places.front().prefix_length;
  rail.blob = encode(places);
  return listen_at(rail, request.port_low, request.port_high);
}

Result<std::unique_ptr<RailTest>> TcpOpener::test(const Proved& proved) {
  return std::unique_ptr<RailTest>(std::make_unique<TcpEcho>(proved.dialer));
}

std::unique_ptr<Wire> TcpOpener::make_wire(const MeshRequest& request, progress::Loop& loop,
                                           Handshake& handshake) {
  const TcpWireOptions options{request.congestion_control, request.peer_deadline};
  const std::string& device = request.rail_of(request.rank, handshake.rail()).name;
  const std::string name = describe_connection(handshake.fd()) + " (" + device + ")";
  return std::make_unique<TcpWire>(loop, handshake.release_stream(), name, options);
}

std::vector<std::string> TcpOpener::devices(const MeshRequest& request) {
  std::vector<std::string> devices;
  for (const RailAddress& rail : request.ranks[static_cast<size_t>(request.rank)].rails) {
    devices.push_back(rail.name);
  }
  return devices;
}

Result<std::vector<Descriptor>> listen_at(RailAddress& rail, uint16_t port_low, uint16_t port_high) {
  std::vector<TcpPlace> places = places_of(rail);
  std::vector<Descriptor> sockets;
  for (size_t i = 0; i < places.size(); ++i) {
    const Status listens = listen_at(places[i], rail.name, port_low, port_high, sockets);
    if (listens) continue;
    if (i == 0) return listens;
    NEZHA_LOG(info, "rails", "%s is used with %s alone: %s", rail.name.c_str(), rail.address.c_str(),
              listens.message().c_str());
    places.resize(i);
  }
  rail.blob = encode(places);
  return sockets;
}

TcpOpener& tcp_opener() {
  static TcpOpener opener;
  return opener;
}

}  // namespace nezha::transport
