// RailTransports: TCP, and what the rails of this rank need besides, as one Transport.
//
// Contract: see transport/transport.h. Rails keep their place in the list of all rails: what a mechanism
// says of its own first rail comes out as said of that rail. Errors: `peer_lost` when no rail of any kind
// reaches a peer; `unsupported` for rails that this build cannot open.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "transport/transport.h"

namespace nezha::context {

class RailTransports final : public transport::Transport {
 public:
  RailTransports();
  Status listen(std::vector<transport::RailAddress>& rails, uint16_t port_low,
                uint16_t port_high) override;
  Result<transport::Mesh> connect(const transport::MeshRequest& request, progress::Loop& loop,
                                  transport::ConnectionEvents& events) override;
  Result<std::unique_ptr<transport::ConnectionManager>> manage(const transport::MeshRequest& request,
                                                    progress::Loop& loop,
                                                    transport::ConnectionEvents& events,
                                                    transport::JoinEvents& joins) override;

  // Where a mechanism's rails stand in the list of all: [rank][its index].
  using Places = std::vector<std::vector<int>>;

 private:
  struct Kind {
    std::string_view name;  // RailAddress::transport
    bool everywhere = false;  // a rank has rails of it if any rank has
    std::unique_ptr<transport::Transport> transport;
    Places places;                                    // from connect or manage on
    bool in_use = false;
  };
  // What is a mechanism's own in it. `invalid_argument` when some ranks have rails of it that all need.
  static Result<transport::MeshRequest> part_of(const transport::MeshRequest& request, Kind& kind);

  std::vector<Kind> kinds_;
};

}  // namespace nezha::context
