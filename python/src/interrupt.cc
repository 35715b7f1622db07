#include "interrupt.h"

#include <atomic>
#include <utility>

#include "bindings.h"
#include "nezha/interrupt.h"

namespace nb = nanobind;

namespace nezha::python {
namespace {

// Set once, when the interpreter ends: a thread that comes back later could not take the GIL.
std::atomic<bool> stopping{false};
thread_local Interruptible* innermost = nullptr;

bool is_main_thread() {
  const nb::object main_thread = nb::module_::import_("threading").attr("main_thread")();
  return nb::cast<unsigned long>(main_thread.attr("ident")) == PyThread_get_thread_ident();
}

}  // namespace

Interruptible::Interruptible() : outer_(innermost), in_main_thread_(is_main_thread()) {
  innermost = this;
  nezha_set_interrupt_check(in_main_thread_ ? &check_signals : &check_end);
}

Interruptible::~Interruptible() {
  innermost = outer_;
  nezha_set_interrupt_check(outer_ == nullptr ? nullptr : in_main_thread_ ? &check_signals : &check_end);
}

// The main thread is also the one that closes what is open when the interpreter ends, and not interrupted
// by that.
int Interruptible::check_signals() {
  nb::gil_scoped_acquire gil;
  return innermost->looks_interrupted() ? 1 : 0;
}

int Interruptible::check_end() { return stopping.load(std::memory_order_relaxed) ? 1 : 0; }

bool Interruptible::looks_interrupted() {
  if (raised_.is_valid()) return true;
  if (!in_main_thread_) return check_end() != 0;
  if (PyErr_CheckSignals() == 0) return false;
  nb::python_error error;
  raised_ = nb::borrow(error.value());
  return true;
}

void Interruptible::rethrow() {
  if (!raised_.is_valid()) return;
  const nb::object error = std::move(raised_);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw nb::python_error();
}

void bind_interrupt(nb::module_& module) {
  module.def("stop_waiting", [] { stopping.store(true, std::memory_order_relaxed); });
}

}  // namespace nezha::python
