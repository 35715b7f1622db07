// Work: what an asynchronous call returns to Python.
//
// Contract: called with the GIL held, by any thread. Shares the Operation with the communicator's
// Handle, and keeps the Python communicator, whose end would abort the operation.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "operation.h"

namespace nezha::python {

class Work {
 public:
  Work(std::shared_ptr<Operation> operation, nanobind::object communicator)
      : operation_(std::move(operation)), communicator_(std::move(communicator)) {}

  // True when completed; raises the operation's error then.
  bool test();
  // The result array; raises the operation's error, or WaitTimedOut when it is still running.
  nanobind::object wait(std::optional<double> timeout_s);
  void abort() { operation_->abort(); }
  int source() const { return operation_->source(); }
  uint32_t tag() const { return operation_->tag(); }
  // Such as <nezha.Work all_reduce, running>.
  std::string describe();

 private:
  std::shared_ptr<Operation> operation_;
  nanobind::object communicator_;
};

}  // namespace nezha::python
