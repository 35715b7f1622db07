#include "work.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <array>
#include <cstdio>
#include <string>

#include "bindings.h"
#include "errors.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace nezha::python {

namespace {

// Not the operation's error: only the wait is over.
Failure still_running(const std::string& name, double waited_s) {
  std::array<char, 32> seconds;
  std::snprintf(seconds.data(), seconds.size(), "%g", waited_s);
  return {NEZHA_TIMED_OUT,
          "the " + name + " was still running after " + seconds.data() +
              " s of wait(); it continues: wait again, or abort() it",
          R"({"goes_on": true, "operation": ")" + name + "\"}"};
}

}  // namespace

bool Work::test() {
  if (!operation_->poll()) return false;
  operation_->outcome();
  return true;
}

nb::object Work::wait(std::optional<double> timeout_s) {
  if (timeout_s && !(*timeout_s >= 0)) {
    raise(NEZHA_INVALID_ARGUMENT, "timeout must be a number of seconds >= 0, or None");
  }
  if (!operation_->wait(timeout_s.value_or(-1))) {
    raise(still_running(operation_->name(), *timeout_s));
  }
  operation_->outcome();
  return operation_->result;
}

std::string Work::describe() {
  const char* state = "running";
  if (operation_->poll()) state = operation_->has_failed() ? "failed" : "completed";
  return std::string("<nezha.Work ") + operation_->name() + ", " + state + ">";
}

void bind_work(nb::module_& module) {
  nb::class_<Work>(module, "Work", nb::is_generic(),
                   "An operation that was started with async_op=True. Its buffers belong to the "
                   "operation until it has completed. Under asyncio, `await work` is its wait(). "
                   "nezha.wait_all and wait_any wait for several.")
      .def("test", &Work::test,
           "True when the operation has completed; raises its error if it failed.")
      .def("wait", &Work::wait, "timeout"_a = nb::none(),
           "The result, when the operation has completed. Raises its error, or WaitTimedOut when "
           "it is still running after `timeout` seconds; it continues then.")
      .def_prop_ro("source", &Work::source,
                   "The rank whose message a completed recv took; -1 otherwise.")
      .def_prop_ro("tag", &Work::tag, "The tag of that message; 0 otherwise.")
      .def("abort", &Work::abort,
           "Fails the operation and its communicator, on every rank, with Aborted.")
      .def("__await__", [](nb::handle self) {
        return nb::module_::import_("nezha._waiting").attr("awaited")(self);
      })
      .def("__repr__", &Work::describe);
}

}  // namespace nezha::python
