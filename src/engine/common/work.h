// Work: the outcome of one operation, as its caller sees it.
//
// Contract
//   Owner    the caller; the engine holds a pointer until it has called `complete`, and never after.
//   Threads  `complete` with the progress lock held; `is_done` and `status` (once done) from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>

#include "base/status.h"

namespace nezha::engine {

class Work {
 public:
  void complete(const Status& status) noexcept {
    try {
      status_ = status;
    } catch (const std::bad_alloc&) {
      status_ = Status(status.code(), "out of memory");  // too short to need memory
    }
    done_.store(true, std::memory_order_release);
  }
  // Makes the Work ready for another operation; the engine must hold no pointer to it.
  void renew() {
    std::destroy_at(this);
    std::construct_at(this);
  }
  // For a receive: the rank whose message it took, and the message's tag; set before `complete`.
  int source = -1;
  uint32_t tag = 0;
  uint64_t flight = 0;  // the engine's: its entry in the flight recorder

  bool is_done() const { return done_.load(std::memory_order_acquire); }
  const Status& status() const { return status_; }

 private:
  std::atomic<bool> done_{false};
  Status status_;
};

}  // namespace nezha::engine
