// The module nezha._native: include/nezha for Python. nezha/communicator.py is what users see of it.
#include <nanobind/nanobind.h>

#include "bindings.h"

NB_MODULE(_native, module) {
  // Threads that hold communicators may outlive the interpreter's own bookkeeping.
  nanobind::set_leak_warnings(false);
  nezha::python::bind_work(module);
  nezha::python::bind_communicator(module);
  nezha::python::bind_query(module);
  nezha::python::bind_aggregator(module);
  nezha::python::bind_interrupt(module);
  nezha::python::bind_log(module);
}
