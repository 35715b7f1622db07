#include "transport/tcp/tcp_opener.h"

#include "transport/connect/same_network.h"
#include "transport/connect/handshake.h"
#include "transport/rail_socket.h"
#include "transport/tcp/tcp_address.h"
#include "transport/tcp/tcp_echo.h"
#include "transport/tcp/tcp_wire.h"
#include "transport/transport.h"

namespace nezha::transport {

std::vector<RailPair> TcpOpener::candidates(const MeshRequest& request, int peer, int round) {
  const auto& mine = request.ranks[static_cast<size_t>(request.rank)].rails;
  const auto& theirs = request.ranks[static_cast<size_t>(peer)].rails;
  const bool same_host = request.is_same_host(peer);
  std::vector<RailPair> pairs;
  for (size_t i = 0; i < mine.size(); ++i) {
    for (size_t k = 0; k < theirs.size(); ++k) {
      if (mine[i].is_missing() || theirs[k].is_missing()) continue;
      const bool near = same_network(mine[i], theirs[k]);
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
  const TcpPorts ports = ports_of(theirs);
  return nezha::transport::dial({mine.address, same_host ? "" : mine.name}, theirs.address,
                                same_host ? ports.local : ports.device);
}

Result<std::vector<Descriptor>> TcpOpener::listen(const MeshRequest& request, RailAddress& rail) {
  if (!find_address(rail.name, &rail.address, &rail.prefix_length)) return std::vector<Descriptor>();
  return listen_at(rail, request.port_low, request.port_high);
}

Result<std::unique_ptr<RailTest>> TcpOpener::test(const Proved& proved) {
  return std::unique_ptr<RailTest>(std::make_unique<TcpEcho>(proved.dialler));
}

std::unique_ptr<Wire> TcpOpener::make_wire(const MeshRequest& request, progress::Loop& loop,
                                           Handshake& handshake) {
  const TcpWireOptions options{request.send_buffer_bytes, request.notsent_lowat_bytes,
                               request.congestion_control};
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
  TcpPorts ports;
  auto device = listen_on({rail.address, rail.name}, port_low, port_high, &ports.device);
  if (!device) return device.status();
  auto local = listen_on({rail.address, ""}, port_low, port_high, &ports.local);
  if (!local) return local.status();
  rail.blob = encode(ports);
  std::vector<Descriptor> both;
  both.push_back(std::move(*device));
  both.push_back(std::move(*local));
  return both;
}

TcpOpener& tcp_opener() {
  static TcpOpener opener;
  return opener;
}

}  // namespace nezha::transport
