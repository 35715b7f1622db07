// TcpOpener: how rails of TCP are dialled, tested and used (transport/connect/rail_test.h). The
// connection on which two ranks proved themselves is the one that carries the frames.
//
// Contract: has no state; any thread. Calls that take a loop need its progress lock.
#pragma once

#include "transport/connect/rail_test.h"
#include "transport/transport.h"

namespace nezha::transport {

class TcpOpener final : public RailOpener {
 public:
  // Round 0: rails in one network, and between ranks of this host of one device. Round 1: rails in
  // different networks.
  std::vector<RailPair> candidates(const MeshRequest& request, int peer, int round) override;
  // Dials through the rail's own device to another host, through loopback to a rank of this host.
  Result<Descriptor> dial(const MeshRequest& request, const Path& path) override;
  Result<std::vector<Descriptor>> listen(const MeshRequest& request, RailAddress& rail) override;
  Result<std::unique_ptr<RailTest>> test(const Proved& proved) override;
  std::unique_ptr<Wire> make_wire(const MeshRequest& request, progress::Loop& loop,
                                  Handshake& handshake) override;
  std::vector<std::string> devices(const MeshRequest& request) override;
};

TcpOpener& tcp_opener();

// Listens at each address of a rail (tcp_address.h), twice: other hosts come through the rail's own
// device, ranks of this host through loopback. Fills in the ports. Where it cannot listen at the
// second address, the rail has the first alone.
Result<std::vector<Descriptor>> listen_at(RailAddress& rail, uint16_t port_low, uint16_t port_high);

}  // namespace nezha::transport
