// FabricPort: one reliable-datagram endpoint of a rail, with a table of addresses and a queue of
// completions of its own, so that closing it ends every access to local memory through it.
//
// Contract: one loop's lock, or one thread before the loop starts. Goes before its rail. `close` is
// idempotent; nothing else may be called after it.
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

// Begins every operation that is posted: the provider writes into it.
struct FabricOperation {
  enum class Kind : uint8_t { receive, send, write };
  fi_context2 context{};
  Kind kind = Kind::send;
  uint16_t index = 0;  // the owner's
};

class FabricPort {
 public:
  // `completions`: how many may be outstanding.
  static Result<std::unique_ptr<FabricPort>> open(FabricRail& rail, size_t completions);
  ~FabricPort() { close(); }
  FabricPort(const FabricPort&) = delete;
  FabricPort& operator=(const FabricPort&) = delete;

  // Its own, where ports are isolated: then it goes with the port, and after `close` nothing may be
  // registered with it.
  FabricRail& rail() { return rail_; }
  // What peers dial: bytes whose meaning is the provider's.
  const std::string& name() const { return name_; }
  Result<fi_addr_t> insert(std::string_view peer);
  // Nothing is on its way there.
  void remove(fi_addr_t peer);
  void close();

  // Messages of either lane go into buffers of that lane; all of a sender arrive in order.
  enum class Lane : uint8_t { short_messages, long_messages };
  // The provider's answers: 0, -FI_EAGAIN, or what went wrong.
  ssize_t receive(std::byte* buffer, size_t bytes, fid_mr* region, FabricOperation& operation,
                  Lane lane = Lane::short_messages);
  // Never by fi_inject: nobody would hear that it failed.
  ssize_t send(fi_addr_t to, const std::byte* buffer, size_t bytes, fid_mr* region,
               FabricOperation& operation, Lane lane = Lane::short_messages);
  // `data` arrives with it, unless tells_writes_by_message().
  ssize_t write(fi_addr_t to, const std::byte* from, size_t bytes, fid_mr* region,
                const RemoteMemory& target, uint64_t data, FabricOperation& operation);

  struct Completion {
    FabricOperation* operation = nullptr;  // null: written here by the peer, `data` is its word
    size_t bytes = 0;
    uint64_t data = 0;
    int error = 0;                         // the library's, positive
  };
  // How many came; negative when the queue itself is broken.
  ssize_t reap(Completion* completions, size_t most);

  // -1: nothing in this process can sleep on it.
  int wait_fd() const { return wait_fd_; }
  // Whether wait_fd becomes ready, as an edge, whenever there is something to reap, also without may_wait
  // before: who is not told need not ask, and asking costs `net` a system call.
  bool tells() const { return wait_ != nullptr && wait_fd_ >= 0; }
  // Whether whoever sleeps on wait_fd will be woken by whatever comes. What made it ready is forgotten by
  // this alone: before every sleep, however short.
  bool may_wait();

 private:
  explicit FabricPort(FabricRail& rail) : rail_(rail) {}
  explicit FabricPort(std::unique_ptr<FabricRail> own) : own_(std::move(own)), rail_(*own_) {}
  Status open(size_t completions);
  int open_queue(size_t completions, fi_wait_obj wait);
  int open_waiting_queue(size_t completions);
  void note(std::string_view name);
  void hang_up();

  const std::unique_ptr<FabricRail> own_;  // or null
  FabricRail& rail_;
  std::string name_;
  fid_wait* wait_ = nullptr;  // where the queue's own descriptor never forgets
  fid_cq* queue_ = nullptr;
  fid_av* addresses_ = nullptr;
  fid_ep* endpoint_ = nullptr;
  int wait_fd_ = -1;
  struct Peer {
    fi_addr_t at;
    std::string name;
  };
  std::vector<Peer> peers_;  // in the table
};

}  // namespace nezha::transport
