#include "transport/tcp/tcp_transport.h"

#include "transport/tcp/tcp_address.h"
#include "transport/tcp/tcp_connect.h"
#include "transport/tcp/tcp_mesh.h"
#include "transport/tcp/tcp_rejoin.h"

namespace nezha::transport {

Status TcpTransport::listen(std::vector<RailAddress>& rails, uint16_t port_low,
                            uint16_t port_high) {
  for (RailAddress& rail : rails) {
    // Two listeners: other hosts come through the rail's own device, ranks of this host through loopback.
    TcpPorts ports;
    auto device = listen_on({rail.address, rail.name}, port_low, port_high, &ports.device);
    if (!device) return device.status();
    auto local = listen_on({rail.address, ""}, port_low, port_high, &ports.local);
    if (!local) return local.status();
    rail.blob = encode(ports);
    device_listeners_.push_back(std::move(*device));
    local_listeners_.push_back(std::move(*local));
  }
  return Status::ok();
}

Result<Mesh> TcpTransport::connect(const MeshRequest& request, progress::Loop& loop,
                                   ConnectionEvents& events) {
  auto mesh = build(request, loop, events);
  if (!mesh) {
    device_listeners_.clear();
    local_listeners_.clear();
  }
  return mesh;
}

Result<Mesh> TcpTransport::build(const MeshRequest& request, progress::Loop& loop,
                                 ConnectionEvents& events) {
  TcpMesh builder(request, device_listeners_, local_listeners_, loop.clock());
  NEZHA_RETURN_IF_ERROR(builder.run());
  Mesh mesh;
  mesh.left_out = builder.left_out();
  for (TcpTrial& trial : builder.used()) {
    auto connection = make_connection(request, loop, events, trial);
    if (!connection) return connection.status();
    mesh.connections.push_back(std::move(*connection));
  }
  return mesh;
}

Result<std::unique_ptr<Rejoin>> TcpTransport::rejoin(const MeshRequest& request,
                                                     progress::Loop& loop, ConnectionEvents& events,
                                                     RejoinEvents& joins) {
  auto made = TcpRejoin::create(request, loop, events, joins, std::move(device_listeners_),
                                std::move(local_listeners_));
  if (!made) return made.status();
  return std::unique_ptr<Rejoin>(std::move(*made));
}

}  // namespace nezha::transport
