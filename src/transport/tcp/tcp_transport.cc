#include "transport/tcp/tcp_transport.h"

#include "transport/tcp/tcp_endpoint.h"
#include "transport/tcp/tcp_mesh.h"

namespace nezha::transport {

Status TcpTransport::listen(std::vector<RailAddress>& rails, uint16_t port_low,
                            uint16_t port_high) {
  for (RailAddress& rail : rails) {
    // Two doors: other hosts come through the rail's own device, ranks of this host through loopback.
    auto device = listen_on({rail.address, rail.name}, port_low, port_high, &rail.port);
    if (!device) return device.status();
    auto local = listen_on({rail.address, ""}, port_low, port_high, &rail.local_port);
    if (!local) return local.status();
    device_listeners_.push_back(std::move(*device));
    local_listeners_.push_back(std::move(*local));
  }
  return Status::ok();
}

Result<Mesh> TcpTransport::connect(const MeshRequest& request, progress::Loop& loop,
                                   EndpointEvents& events) {
  TcpMesh builder(request, device_listeners_, local_listeners_, loop.clock());
  Status status = builder.run();
  device_listeners_.clear();
  local_listeners_.clear();
  if (!status) return status;
  Mesh mesh;
  mesh.left_out = builder.left_out();
  const TcpEndpointOptions options{request.send_buffer_bytes, request.notsent_lowat_bytes,
                                   request.congestion_control};
  for (TcpTrial& trial : builder.used()) {
    const std::string& device =
        request.ranks[static_cast<size_t>(request.rank)].rails[static_cast<size_t>(trial.rail())].name;
    const std::string name = describe_connection(trial.fd()) + " (" + device + ")";
    auto endpoint = std::make_unique<TcpEndpoint>(loop, events, trial.release_fd(), name);
    endpoint->peer = trial.peer();
    endpoint->rail = trial.rail();
    endpoint->lane = trial.lane();
    endpoint->latency_s = trial.latency_s();
    NEZHA_RETURN_IF_ERROR(endpoint->start(options));
    mesh.endpoints.push_back(std::move(endpoint));
  }
  return mesh;
}

}  // namespace nezha::transport
