#include "transport/tcp/tcp_transport.h"

#include "transport/connect/mesh_builder.h"

namespace nezha::transport {

Status TcpTransport::listen(std::vector<RailAddress>& rails, uint16_t port_low,
                            uint16_t port_high) {
  for (RailAddress& rail : rails) {
    if (rail.is_missing()) continue;
    auto sockets = listen_at(rail, port_low, port_high);
    if (!sockets) return sockets.status();
    const auto index = static_cast<int>(&rail - rails.data());
    for (Descriptor& socket : *sockets) listeners_.push_back({std::move(socket), index});
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
