// Ctrl-C, and the end of the interpreter, while nezha.init waits for other ranks.
#include "nezha/interrupt.h"

#include <nanobind/nanobind.h>

#include <atomic>
#include <utility>

#include "bindings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace nezha::python {
namespace {

// Set once, when the interpreter ends: a thread that comes back later could not take the GIL.
std::atomic<bool> stopping{false};
// What a signal handler raised in this thread; a new reference or null.
thread_local PyObject* raised = nullptr;

int is_stopping() { return stopping.load(std::memory_order_relaxed) ? 1 : 0; }

// Signal handlers of Python run in the main thread only.
int signal_raised() {
  if (is_stopping()) return 1;
  nb::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() == 0) return 0;
  nb::python_error error;
  raised = nb::borrow(error.value()).release().ptr();
  return 1;
}

void begin_waiting(bool main_thread) {
  nezha_set_interrupt_check(main_thread ? &signal_raised : &is_stopping);
}

nb::object end_waiting() {
  nezha_set_interrupt_check(nullptr);
  if (raised == nullptr) return nb::none();
  return nb::steal(std::exchange(raised, nullptr));
}

void stop_waiting() { stopping.store(true, std::memory_order_relaxed); }

}  // namespace

void bind_interrupt(nb::module_& module) {
  module.def("begin_waiting", &begin_waiting, "main_thread"_a);
  module.def("end_waiting", &end_waiting);
  module.def("stop_waiting", &stop_waiting);
}

}  // namespace nezha::python
