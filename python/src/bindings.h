// The Python classes of the module: communicators, operations, questions without
// either, aggregation nodes, how waiting for a job to form ends early, and log lines.
#pragma once

#include <nanobind/nanobind.h>

namespace nezha::python {

void bind_communicator(nanobind::module_& module);
void bind_work(nanobind::module_& module);
void bind_query(nanobind::module_& module);
void bind_aggregator(nanobind::module_& module);
void bind_interrupt(nanobind::module_& module);
void bind_log(nanobind::module_& module);

}  // namespace nezha::python
