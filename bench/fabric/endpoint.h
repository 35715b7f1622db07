// One reliable datagram endpoint of libfabric with one registered block of memory that the peer may
// write: `window` slots of `size` bytes, then one word to send from and one to receive into. One thread;
// every error ends the process (watch.h).
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "options.h"

namespace nezha::bench {

// What the other half must know to write here; fixed size, checked by connect().
struct Greeting {
  uint64_t magic, size, window, iterations, verified, round_trips, repeats;
  uint64_t memory_address, memory_key, name_bytes;
  char name[512];
};

class Endpoint {
 public:
  Endpoint(const Options& options, const std::string& address, bool sender);

  Greeting greeting() const;
  void connect(const Greeting& theirs);

  std::byte* slot(uint64_t index) { return memory_ + index * size_; }
  std::byte* word_out() { return memory_ + word_offset_; }
  std::byte* word_in() { return memory_ + word_offset_ + kWordStride; }

  // Each begins one thing and returns false when there is no room yet: reap, then try again.
  bool write_slot(uint32_t data);  // next_slot(), to the same slot over there
  bool write_word(uint32_t data);
  bool send_word();
  bool receive_word();

  // Handles what has completed; whether that was anything. Calls `arrived` for each remote completion.
  bool reap();
  void on_arrival(std::function<void(uint32_t data)> arrived) { arrived_ = std::move(arrived); }

  bool idle() const { return free_.size() == contexts_.size(); }  // nothing of ours is under way
  bool has_slot() const { return !free_slots_.empty(); }
  uint64_t next_slot() const { return free_slots_.back(); }  // the same until it is written
  uint64_t arrivals() const { return arrivals_; }
  uint64_t received() const { return received_; }
  std::string library_and_provider() const;

 private:
  enum class Kind : uint8_t { slot_write, word_write, word_send, word_receive };
  struct Context {
    fi_context2 space;  // the provider's while the operation is under way; first, so that it leads here
    Kind kind;
    uint64_t slot;
  };

  void open(const Options& options, const std::string& address);
  void open_queues();
  void register_memory(bool sender);
  void finish(Context* context);
  [[noreturn]] void report_error();
  Context* take(Kind kind);
  bool began(ssize_t result, Context* context, const char* what);
  uint64_t remote(uint64_t offset) const { return peer_.memory_address + offset; }

  static constexpr uint64_t kWordStride = 64;
  uint64_t size_, window_, word_offset_;
  fi_info* info_ = nullptr;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_ep* endpoint_ = nullptr;
  fid_cq* queue_ = nullptr;
  fid_av* addresses_ = nullptr;
  fid_mr* region_ = nullptr;
  std::byte* memory_ = nullptr;
  fi_addr_t peer_address_ = FI_ADDR_UNSPEC;
  Greeting mine_{}, peer_{};
  std::vector<Context> contexts_;
  std::vector<Context*> free_;
  std::deque<uint64_t> free_slots_;  // taken from the back
  std::function<void(uint32_t)> arrived_;
  uint64_t arrivals_ = 0, received_ = 0;
};

}  // namespace nezha::bench
