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
#include "errors.h"
#include "handle.h"
#include "nezha/nezha.h"

namespace nezha::python {

class Operation {
 public:
  // `name` is a literal: "all_reduce", "group".
  Operation(Handle::Lease lease, const char* name) : lease_(std::move(lease)), name_(name) {}
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  ~Operation();

  Buffer input;
  Buffer output;
  nanobind::object result;  // what wait() returns
  // Of a group: its operations, whose buffers live as long as the group's.
  std::vector<std::shared_ptr<Operation>> parts;

  nezha_comm_t comm() const { return lease_->raw(); }
  const char* name() const { return name_; }

  // `issue` makes the C call that fills the work handle, or leaves it NULL where the operation is over.
  // With `block`, waits for the outcome: a Python signal handler that raises (Ctrl-C) aborts the
  // communicator, because the memory must not be written any more when the exception is seen. Throws the
  // operation's error.
  template <class Issue>
  void start(Issue&& issue, bool block);

  bool is_done() const { return done_; }
  // True when it has completed; an error of the operation is raised by outcome().
  bool poll();
  // Waits at most `timeout_s` (< 0: without limit). True when it has completed. Signals are seen.
  bool wait(double timeout_s);
  // The same for close(): no signals, no exceptions.
  bool wait_quietly(double timeout_s);
  // The rank whose message a completed receive took; -1 otherwise.
  int source() const { return source_; }
  uint32_t tag() const { return tag_; }
  bool has_failed() const { return failure_ != nullptr; }
  // Raises if the operation failed. Only when it has completed.
  void outcome() const;
  void abort();

 private:
  // One turn of waiting without the GIL; true when completed.
  bool wait_slice(double seconds);
  bool wait_in_slices(double timeout_s, bool signals);
  void wait_blocking();
  // Null: it has succeeded.
  void complete(std::unique_ptr<Failure> failure);
  void let_go();

  std::optional<Handle::Lease> lease_;
  nezha_work_t work_ = nullptr;
  int waiters_ = 0;
  bool done_ = false;
  int source_ = -1;
  uint32_t tag_ = 0;
  const char* name_;
  std::unique_ptr<Failure> failure_;  // null: none
};

template <class Issue>
void Operation::start(Issue&& issue, bool block) {
  std::unique_ptr<Failure> failure;
  {
    nanobind::gil_scoped_release no_gil;
    const nezha_code code = issue(lease_->raw(), &work_);
    if (code != NEZHA_OK) failure = std::make_unique<Failure>(failure_of(code));
  }
  if (failure || work_ == nullptr) {
    complete(std::move(failure));
  } else if (block) {
    wait_blocking();
  }
  if (done_) outcome();
}

}  // namespace nezha::python
