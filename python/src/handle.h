// Handle: one open nezha_comm_t, and who is using it.
//
// Contract: created and destroyed with the GIL held. Every C call on the communicator happens inside
// a Lease, so close() can wait until nobody uses what it is about to destroy. Unfinished asynchronous
// operations are listed here: an operation whose Python handle was dropped goes on, keeps its
// buffers, and is collected later. Errors leave as exceptions.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>

#include "interrupt.h"
#include "nezha/nezha.h"
#include "store_bridge.h"

namespace nezha::python {

class Operation;

class Handle {
 public:
  Handle(nezha_comm_t raw, std::shared_ptr<StoreBridge> store);
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle();

  bool closed() const { return closing_; }
  const std::shared_ptr<StoreBridge>& store() const { return store_; }

  // Waits for unfinished operations, at most `timeout_s` (< 0: as long as they take), aborts what
  // is left, and destroys the communicator. A Python signal handler that raises ends the patience, and is
  // heard when all that is done. Does nothing the second time.
  void close(double timeout_s);
  // close(0) for a destructor: no signal is heard, and nothing is thrown.
  void abandon() { end(0, nullptr); }

  void add_unfinished(std::shared_ptr<Operation> operation);

  // The right to use the communicator. Throws `invalid_argument` when it is closed.
  class Lease {
   public:
    explicit Lease(std::shared_ptr<Handle> handle);
    Lease(Lease&&) = default;
    ~Lease();
    nezha_comm_t raw() const { return handle_->raw_; }

   private:
    std::shared_ptr<Handle> handle_;
  };

 private:
  // Looks at two operations, in turn, and forgets those that are over: a call costs the same however many
  // are under way. Of those with a Work only the Work asks the library, which drives it.
  void collect();
  using Operations = std::deque<std::shared_ptr<Operation>>;
  // Without `waiting` no signals are heard.
  void end(double timeout_s, Interruptible* waiting);
  bool wait_for_all(const Operations& pending, double timeout_s, Interruptible* waiting);
  bool is_idle_within(double seconds);
  void wait_for_users();

  nezha_comm_t raw_;
  std::shared_ptr<StoreBridge> store_;  // the C library may call it as long as raw_ lives
  bool closing_ = false;
  Operations unfinished_;
  std::atomic<int> users_{0};  // changed with the GIL held; close() reads it without
  std::mutex mutex_;
  std::condition_variable idle_;  // users_ has become 0 while closing
};

}  // namespace nezha::python
