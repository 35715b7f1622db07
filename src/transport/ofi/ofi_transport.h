// OfiTransport: RDMA rails through libfabric.
//
// Contract: see transport/transport.h. Sees only rails of its own kind; RailAddress::variant is the
// provider.
// Outlives its connections and what `rejoin` returns, since the rails are its own. A peer that it does
// not reach is no error here: other rails may.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/ofi/fabric_port.h"
#include "transport/ofi/fabric_rail.h"
#include "transport/ofi/ofi_meeting.h"
#include "transport/transport.h"

namespace nezha::transport {

class OfiTransport final : public Transport {
 public:
  // Ports are chosen by the provider.
  Status listen(std::vector<RailAddress>& rails, uint16_t port_low, uint16_t port_high) override;
  Result<Mesh> connect(const MeshRequest& request, progress::Loop& loop,
                       ConnectionEvents& events) override;
  Result<std::unique_ptr<Rejoin>> rejoin(const MeshRequest& request, progress::Loop& loop,
                                         ConnectionEvents& events, RejoinEvents& joins) override;

 private:
  std::vector<std::unique_ptr<FabricRail>> rails_;
  std::vector<std::unique_ptr<FabricPort>> doors_;
  std::unique_ptr<OfiMeeting> meeting_;  // from connect to rejoin
};

// The connection of a connection that is open.
Result<std::unique_ptr<Connection>> make_ofi_connection(const MeshRequest& request, progress::Loop& loop,
                                                    ConnectionEvents& events, OfiJoined& joined);

}  // namespace nezha::transport
