// OfiPost: short messages over a port, before there is a connection.
//
// Contract: used by the owner of the port, who calls `turn` until it has what it wants. Buffers stay
// until the port is closed or `is_idle` holds and nothing is armed. Whoever sends here is a stranger
// until the message proves otherwise.
//   Addresses  are in the port's table while somebody holds them: who entered them, or a letter.
//   Bounds     kLettersMax letters, each until its time is over; one that does not leave holds up only
//              those to the same address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "transport/ofi/fabric_port.h"

namespace nezha::transport {

class OfiPost {
 public:
  static constexpr size_t kMessageMax = 1024;
  static constexpr size_t kLettersMax = 64;

  // An address in the port's table.
  struct Address {
    std::string name;
    fi_addr_t at = FI_ADDR_UNSPEC;
    uint32_t holders = 0;
  };

  // `receives`: how many buffers are kept posted; 0: each is armed by hand.
  static Result<std::unique_ptr<OfiPost>> open(FabricPort& port, size_t receives);
  // After the port is closed, or when it is idle.
  ~OfiPost() { FabricRail::forget(region_); }
  OfiPost(const OfiPost&) = delete;
  OfiPost& operator=(const OfiPost&) = delete;

  // Held by the caller until `leave`; null when the provider does not take it.
  Address* enter(const std::string& name);
  void leave(Address* address);
  // When there is no room, or its time is over before it can leave, it is lost.
  void send(Address* to, std::string message, Nanoseconds until);
  // Takes one more message.
  Status arm();
  // Moves everything; what arrived is appended. True when there was anything.
  bool turn(std::vector<std::string>* arrived, Nanoseconds now);
  // All that was sent has left.
  bool is_idle() const { return letters_.empty() && free_.size() == sends_.size(); }
  // Of a message of ours: the library's reason, 0 when none failed.
  int send_error() const { return send_error_; }
  size_t addresses() const { return addresses_.size(); }

 private:
  static constexpr size_t kSends = 8;
  struct Letter {
    Address* to;
    std::string message;
    Nanoseconds until;
  };

  OfiPost(FabricPort& port, size_t receives);
  std::byte* buffer(size_t index) { return buffers_.get() + index * kMessageMax; }
  Status post_receive(size_t index);
  // False when it has to wait.
  bool post_send(const Letter& letter);
  bool flush(Nanoseconds now);
  void on_completion(const FabricPort::Completion& completion, std::vector<std::string>* arrived);

  FabricPort& port_;
  const bool reposts_;
  std::unique_ptr<std::byte[]> buffers_;  // receives, then sends
  fid_mr* region_ = nullptr;
  std::vector<FabricOperation> receives_;
  std::vector<FabricOperation> sends_;
  std::vector<Address*> sends_to_;
  std::vector<uint16_t> free_;
  std::vector<uint16_t> unposted_;
  std::list<Letter> letters_;
  std::map<std::string, Address> addresses_;
  int send_error_ = 0;
};

}  // namespace nezha::transport
