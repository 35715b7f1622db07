// TcpTransport: rails that are Ethernet devices, one or several TCP connections each.
//
// Contract: see transport/transport.h. The lower of two ranks dials. Candidates are first the pairs
// of devices in one subnet (for ranks of one host each device with itself), then, for rails left
// over on both sides, the pairs in different subnets. Which pairs work is found by trying
// (handshake.h), never by name or order.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/connect/connector.h"
#include "transport/tcp/tcp_opener.h"
#include "transport/transport.h"

namespace nezha::transport {

class TcpTransport final : public Transport {
 public:
  // `opener` outlives it.
  explicit TcpTransport(RailOpener& opener = tcp_opener()) : opener_(opener) {}
  Status listen(std::vector<RailAddress>& rails, uint16_t port_low, uint16_t port_high) override;
  Result<Mesh> connect(const MeshRequest& request, progress::Loop& loop,
                       ConnectionEvents& events) override;
  Result<std::unique_ptr<ConnectionManager>> manage(const MeshRequest& request, progress::Loop& loop,
                                         ConnectionEvents& events, JoinEvents& joins) override;

 private:
  RailOpener& opener_;
  // Two for each address of a rail; empty while a connector has them.
  std::vector<RailListener> listeners_;
};

}  // namespace nezha::transport
