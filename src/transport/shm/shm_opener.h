// ShmOpener: rails whose connections between ranks of one host pass through memory that the two share.
// The opener beneath does everything else for them (dialling, the first test, other hosts).
//
// Contract: see transport/connect/rail_test.h; outlives all handshakes that know it, and is outlived
// by the opener beneath. `begin` before the first of them.
#pragma once

#include <vector>

#include "transport/connect/rail_test.h"
#include "transport/transport.h"

namespace nezha::transport {

class ShmOpener final : public RailOpener {
 public:
  explicit ShmOpener(RailOpener& beneath) : beneath_(beneath) {}
  // Takes from `request` with which ranks memory is to be shared, if at all.
  void begin(const MeshRequest& request);

  std::vector<RailPair> candidates(const MeshRequest& request, int peer, int round) override {
    return beneath_.candidates(request, peer, round);
  }
  Result<Descriptor> dial(const MeshRequest& request, const Path& path) override {
    return beneath_.dial(request, path);
  }
  Result<std::vector<Descriptor>> listen(const MeshRequest& request, RailAddress& rail) override {
    return beneath_.listen(request, rail);
  }
  Result<std::unique_ptr<RailTest>> test(const Proved& proved) override;
  std::unique_ptr<Wire> make_wire(const MeshRequest& request, progress::Loop& loop,
                                  Handshake& handshake) override;
  std::vector<std::string> devices(const MeshRequest& request) override {
    return beneath_.devices(request);
  }
  bool ends_unheard() const override { return beneath_.ends_unheard(); }
  // Ranks with which memory was to be shared, and with which some connection has none; ascending.
  std::vector<int> apart() const;

 private:
  RailOpener& beneath_;
  bool required_ = false;
  std::vector<bool> is_near_;   // by rank: memory is to be shared with it
  std::vector<bool> is_apart_;  // and could not be
};

}  // namespace nezha::transport
