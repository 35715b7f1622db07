#include "transport/tcp/tcp_transport.h"

#include "transport/connect/connector.h"
#include "transport/tcp/tcp_address.h"
#include "transport/tcp/tcp_mesh.h"
#include "transport/tcp/tcp_opener.h"

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
  for (Trial& trial : builder.used()) {
    auto connection = make_connection(request, tcp_opener(), {loop, events}, trial);
    if (!connection) return connection.status();
    mesh.connections.push_back(std::move(*connection));
  }
  return mesh;
}

Result<std::unique_ptr<Rejoin>> TcpTransport::rejoin(const MeshRequest& request,
                                                     progress::Loop& loop, ConnectionEvents& events,
                                                     RejoinEvents& joins) {
  std::vector<RailListener> listeners;
  for (auto* each : {&device_listeners_, &local_listeners_}) {
    for (size_t rail = 0; rail < each->size(); ++rail) {
      listeners.push_back({std::move((*each)[rail]), static_cast<int>(rail)});
    }
  }
  auto made = Connector::create(request, tcp_opener(), loop, {loop, events}, joins, std::move(listeners));
  if (!made) return made.status();
  return std::unique_ptr<Rejoin>(std::move(*made));
}

}  // namespace nezha::transport
