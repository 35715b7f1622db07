// RDMA rails through libfabric (class OfiTransport).
//
// Contract: see transport/transport.h. It sees only rails of its own kind, whose
// RailAddress::variant is the provider. It owns the rails, so it outlives its connections and what
// `manage` returns. A peer that it does not reach is no error here, because other rails may reach
// it.
//
//   Control   libfabric cannot tell who is at the other end, so the ranks first prove themselves
//             over TCP (transport/connect): at the rail's own address; for shared memory on
//             loopback; for an adapter without an address at that of its network device, or else at
//             the first address of the host. The TCP connection is gone when the connection of the
//             rail is made, so a rail survives the loss of the path that TCP took.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/connect/connector.h"
#include "fabric/fabric_rail.h"
#include "transport/transport.h"

namespace nezha::transport {

class OfiTransport final : public Transport, private RailOpener {
 public:
  // `port_low` and `port_high` are for the control listeners; the provider chooses the ports of the
  // rails.
  Status listen(std::vector<RailAddress>& rails, uint16_t port_low, uint16_t port_high) override;
  Result<Mesh> connect(const MeshRequest& request, progress::Loop& loop,
                       ConnectionEvents& events) override;
  Result<std::unique_ptr<ConnectionManager>> manage(const MeshRequest& request, progress::Loop& loop,
                                         ConnectionEvents& events, JoinEvents& joins) override;

 private:
  // RailOpener
  std::vector<RailPair> candidates(const MeshRequest& request, int peer, int round) override;
  Result<Descriptor> dial(const MeshRequest& request, const Path& path) override;
  Result<std::unique_ptr<RailTest>> test(const Proved& proved) override;
  std::unique_ptr<Wire> make_wire(const MeshRequest& request, progress::Loop& loop,
                                  Handshake& handshake) override;
  std::vector<std::string> devices(const MeshRequest& request) override;
  bool ends_unheard() const override { return true; }

  std::vector<std::unique_ptr<FabricRail>> rails_;
  std::vector<RailListener> listeners_;  // except for the time when a connector has them
};

}  // namespace nezha::transport
