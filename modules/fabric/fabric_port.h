// FabricPort: one reliable-datagram endpoint of a rail, with a table of addresses and a queue of
// completions of its own, so that closing it ends every access to local memory through it.
//
// Contract: used with one loop's progress lock held, or by one thread before the loop starts. A
// port is destroyed before its rail. `close` is idempotent; nothing else may be called after it.
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_rma.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "fabric/fabric_rail.h"

namespace nezha::transport {

// One posted operation. `context` comes first, because a completion points to it; the provider
// writes into it.
struct FabricOperation {
  enum class Kind : uint8_t { receive, send, write };
  fi_context2 context{};
  Kind kind = Kind::send;
  uint16_t index = 0;  // chosen by the operation's owner
};

class FabricPort {
 public:
  // `completions`: how many may be outstanding.
  static Result<std::unique_ptr<FabricPort>> open(FabricRail& rail, size_t completions);
  ~FabricPort() { close(); }
  FabricPort(const FabricPort&) = delete;
  FabricPort& operator=(const FabricPort&) = delete;

  // The rail of this port. Where ports are isolated (FabricRail::isolates_ports), the port owns it
  // and destroys it, and after `close` nothing may be registered with it.
  FabricRail& rail() { return rail_; }
  // The address that peers pass to `insert`; only the provider knows what its bytes mean.
  const std::string& name() const { return name_; }
  Result<fi_addr_t> insert(std::string_view peer);
  // To be called when no operation is on its way to that peer.
  void remove(fi_addr_t peer);
  void close();

  // A message goes into a buffer that was posted for its lane; all messages of one sender arrive in
  // order.
  enum class Lane : uint8_t { short_messages, long_messages };
  // `receive`, `send` and `write` return the provider's answer: 0, -FI_EAGAIN, or a negative error.
  ssize_t receive(std::byte* buffer, size_t bytes, fid_mr* region, FabricOperation& operation,
                  Lane lane = Lane::short_messages);
  // `send` does not use fi_inject, because nobody would learn that the send failed.
  ssize_t send(fi_addr_t to, const std::byte* buffer, size_t bytes, fid_mr* region,
               FabricOperation& operation, Lane lane = Lane::short_messages);
  // `data` arrives with the write, unless FabricRail::tells_by_message().
  ssize_t write(fi_addr_t to, const std::byte* from, size_t bytes, fid_mr* region,
                const RemoteMemory& target, uint64_t data, FabricOperation& operation);

  struct Completion {
    FabricOperation* operation = nullptr;  // null: the peer wrote here, and `data` came with it
    size_t bytes = 0;
    uint64_t data = 0;
    int error = 0;                         // the library's error code; 0: none
  };
  // Returns how many completions it took; negative when the queue itself is broken.
  ssize_t reap(Completion* completions, size_t most);

  // The descriptor on which a loop sleeps; -1: the port has none.
  int wait_fd() const { return wait_fd_; }
  // Whether wait_fd becomes ready, as an edge, whenever there is something to reap, even if
  // may_wait was not called before. Then `reap` is needed only after an edge; it costs `net` a
  // system call.
  bool tells() const { return wait_ != nullptr && wait_fd_ >= 0; }
  // Whether a sleep on wait_fd will end when anything comes. Only this call clears the readiness of
  // the descriptor, so it precedes every sleep, however short.
  bool may_wait();

 private:
  explicit FabricPort(FabricRail& rail) : rail_(rail) {}
  explicit FabricPort(std::unique_ptr<FabricRail> own) : own_(std::move(own)), rail_(*own_) {}
  Status open(size_t completions);
  int open_queue(size_t completions, fi_wait_obj wait);
  int open_waiting_queue(size_t completions);
  void note_address(std::string_view name);
  void hang_up();

  const std::unique_ptr<FabricRail> own_;  // null unless the rail isolates its ports
  FabricRail& rail_;
  std::string name_;
  fid_wait* wait_ = nullptr;  // where the queue's own descriptor stays ready for ever
  fid_cq* queue_ = nullptr;
  fid_av* addresses_ = nullptr;
  fid_ep* endpoint_ = nullptr;
  int wait_fd_ = -1;
  struct Peer {
    fi_addr_t at;
    std::string name;
  };
  std::vector<Peer> peers_;  // in the address table
};

}  // namespace nezha::transport
