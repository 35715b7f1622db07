// The Python classes of the module: communicators, operations, and questions without either.
#pragma once

#include <nanobind/nanobind.h>

namespace nezha::python {

void bind_communicator(nanobind::module_& module);
void bind_work(nanobind::module_& module);
void bind_query(nanobind::module_& module);

}  // namespace nezha::python
