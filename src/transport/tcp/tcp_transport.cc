#include "transport/tcp/tcp_transport.h"

#include "transport/connect/mesh_builder.h"
#include "transport/rail_socket.h"
#include "transport/tcp/tcp_address.h"

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
    const auto index = static_cast<int>(&rail - rails.data());
    listeners_.push_back({std::move(*device), index});
    listeners_.push_back({std::move(*local), index});
  }
  return Status::ok();
}

Result<Mesh> TcpTransport::connect(const MeshRequest& request, progress::Loop& loop,
                                   ConnectionEvents& events) {
  auto mesh = MeshBuilder(request, Needed::everybody).run(opener_, {loop, events}, listeners_);
  if (!mesh) listeners_.clear();
  return mesh;
}

Result<std::unique_ptr<ConnectionManager>> TcpTransport::manage(const MeshRequest& request,
                                                     progress::Loop& loop, ConnectionEvents& events,
                                                     JoinEvents& joins) {
  auto made =
      Wireup::create(request, opener_, loop, {loop, events}, joins, std::move(listeners_));
  if (!made) return made.status();
  return std::unique_ptr<ConnectionManager>(std::move(*made));
}

}  // namespace nezha::transport
