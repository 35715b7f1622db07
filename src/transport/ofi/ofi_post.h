// OfiPost: short messages over a port, before there is an endpoint.
//
// Contract: used by the owner of the port, who calls `turn` until it has what it wants. Buffers stay
// until the port is closed or `is_idle` holds and nothing is armed. Whoever sends here is a stranger
// until the message proves otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/ofi/fabric_port.h"

namespace nezha::transport {

class OfiPost {
 public:
  static constexpr size_t kMessageMax = 1024;

  // `receives`: how many buffers are kept posted; 0: each is armed by hand.
  static Result<std::unique_ptr<OfiPost>> open(FabricPort& port, size_t receives);
  // After the port is closed, or when it is idle.
  ~OfiPost() { FabricRail::forget(region_); }
  OfiPost(const OfiPost&) = delete;
  OfiPost& operator=(const OfiPost&) = delete;

  void send(fi_addr_t to, std::string message) { outbox_.push_back({to, std::move(message)}); }
  // Takes one more message.
  Status arm();
  // Moves everything; what arrived is appended. True when there was anything.
  bool turn(std::vector<std::string>* arrived);
  // All that was sent has left.
  bool is_idle() const { return outbox_.empty() && free_.size() == sends_.size(); }
  // Of a message of ours: the library's reason, 0 when none failed.
  int send_error() const { return send_error_; }

 private:
  static constexpr size_t kSends = 8;
  struct Letter {
    fi_addr_t to;
    std::string message;
  };

  OfiPost(FabricPort& port, size_t receives);
  std::byte* buffer(size_t index) { return buffers_.get() + index * kMessageMax; }
  Status post_receive(size_t index);
  bool flush();

  FabricPort& port_;
  const bool reposts_;
  std::unique_ptr<std::byte[]> buffers_;  // receives, then sends
  fid_mr* region_ = nullptr;
  std::vector<FabricOperation> receives_;
  std::vector<FabricOperation> sends_;
  std::vector<uint16_t> free_;
  std::vector<uint16_t> unposted_;
  std::deque<Letter> outbox_;
  int send_error_ = 0;
};

}  // namespace nezha::transport
