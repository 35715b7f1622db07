// Operation: one collective that was started, with the Python memory it works on.
//
// Contract: all members are called with the GIL held, which also guards the state; waiting releases
// it. The C handle is freed and the buffers are let go as soon as the operation has completed and
// nobody is inside a C call on it. Several threads may wait for one operation.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "buffer.h"
#include "handle.h"
#include "nezha/nezha.h"

namespace nezha::python {

class Operation {
 public:
  explicit Operation(Handle::Lease lease) : lease_(std::move(lease)) {}
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  ~Operation();

  Buffer input;
  Buffer output;
  nanobind::object result;  // what wait() returns
  // Of a group: its operations, whose buffers live as long as the group's.
  std::vector<std::shared_ptr<Operation>> parts;

  nezha_comm_t comm() const { return lease_->raw(); }

  // `issue` makes the C call that fills the work handle. With `block`, waits for the outcome: a
  // Python signal handler that raises (Ctrl-C) aborts the communicator, because the memory must not
  // be written any more when the exception is seen. Throws the operation's error.
  template <class Issue>
  void start(Issue&& issue, bool block);

  // True when it has completed; an error of the operation is raised by outcome().
  bool poll();
  // Waits at most `timeout_s` (< 0: without limit). True when it has completed. Signals are seen.
  bool wait(double timeout_s);
  // The same for close(): no signals, no exceptions.
  bool wait_quietly(double timeout_s);
  // The rank whose message a completed receive took; -1 otherwise.
  int source() const { return source_; }
  // Raises if the operation failed. Only when it has completed.
  void outcome() const;
  void abort();

 private:
  // One turn of waiting without the GIL; true when completed.
  bool wait_slice(double seconds);
  bool wait_in_slices(double timeout_s, bool signals);
  void wait_blocking();
  void complete(nezha_code code, std::string message);
  void let_go();

  std::optional<Handle::Lease> lease_;
  nezha_work_t work_ = nullptr;
  int waiters_ = 0;
  bool done_ = false;
  int source_ = -1;
  nezha_code code_ = NEZHA_OK;
  std::string message_;
};

template <class Issue>
void Operation::start(Issue&& issue, bool block) {
  nezha_code code;
  std::string message;
  {
    nanobind::gil_scoped_release no_gil;
    code = issue(lease_->raw(), &work_);
    if (code != NEZHA_OK) message = nezha_last_error();
  }
  if (code != NEZHA_OK) {
    complete(code, std::move(message));
    outcome();
  }
  if (block) {
    wait_blocking();
    outcome();
  }
}

}  // namespace nezha::python
