// OfiTransport: RDMA rails through libfabric.
//
// Contract: see transport/transport.h. Sees only rails of its own kind; RailAddress::variant is the
// provider.
// Outlives its connections and what `manage` returns, since the rails are its own. A peer that it does
// not reach is no error here: other rails may.
//
//   Control   libfabric has nobody to ask who is at the other end, so the ranks meet over TCP
//             (transport/connect): at the rail's own address; for shared memory on loopback; for an
//             adapter without one at that of its network device, or else at the host's first. Of that
//             connection nothing is left when the rail's is made: losing the way there is not losing the
//             rail.
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
  // The ports are those of the control listeners; of the rails themselves the provider chooses.
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
