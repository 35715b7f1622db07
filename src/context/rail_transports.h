// RailTransports: TCP and the other transports that the rails of this rank need, as one Transport.
//
// Contract: see transport/transport.h. Each transport numbers its own rails from 0; its results are
// translated, so that callers see the index of a rail in the list of all rails. Errors: `peer_lost`
// when no rail of any kind reaches a peer; `unsupported` for rails that this build cannot open.
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

  // The index of a rail in the list of all rails: [rank][index among the rails of one transport].
  using Places = std::vector<std::vector<int>>;

 private:
  struct Kind {
    std::string_view name;  // RailAddress::transport
    bool everywhere = false;  // every rank must have such rails if any rank has
    std::unique_ptr<transport::Transport> transport;
    Places places;                                    // set by part_of
    bool in_use = false;
  };
  // Returns `request` with only the rails of `kind`, and sets `places` and `in_use` of `kind`.
  // Error: `invalid_argument` when only some ranks have such rails although `everywhere` is set.
  static Result<transport::MeshRequest> part_of(const transport::MeshRequest& request, Kind& kind);

  std::vector<Kind> kinds_;
};

}  // namespace nezha::context
