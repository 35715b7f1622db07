// An aggregation node of this process: aggregator.h for Python.
#include "nezha/aggregator.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <utility>

#include "bindings.h"
#include "call.h"
#include "errors.h"
#include "text.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace nezha::python {
namespace {

// Every method is called with the GIL held, which orders `close` and the others.
class Aggregator {
 public:
  explicit Aggregator(const nezha_aggregator_options& options) {
    Failure failure;
    {
      nb::gil_scoped_release no_gil;
      failure = failure_of(nezha_aggregator_start(&options, &raw_));
    }
    if (failure) raise(failure);
  }
  ~Aggregator() { close(); }
  Aggregator(const Aggregator&) = delete;
  Aggregator& operator=(const Aggregator&) = delete;

  int port() const {
    int port = 0;
    check(nezha_aggregator_port(raw_, &port));
    return port;
  }
  std::string stats() const {
    return whole_text([&](char* text, size_t size, size_t* needed) {
      return nezha_aggregator_stats(raw_, text, size, needed);
    });
  }
  void close() {
    const nezha_aggregator_t raw = std::exchange(raw_, nullptr);
    nb::gil_scoped_release no_gil;
    nezha_aggregator_stop(raw);
  }

 private:
  nezha_aggregator_t raw_ = nullptr;
};

}  // namespace

void bind_aggregator(nb::module_& module) {
  nb::class_<Aggregator>(module, "Aggregator")
      .def("__init__",
           [](Aggregator* self, const std::string& address, int port, const OptionalText& device,
              const OptionalText& key_file, int threads, uint32_t jobs_max, uint32_t groups_max,
              uint64_t bytes_max, uint64_t total_max, const OptionalText& topology,
              const OptionalText& name) {
             nezha_aggregator_options options{};
             options.struct_size = sizeof(options);
             options.address = address.c_str();
             options.port = port;
             options.device = c_string(device);
             options.key_file = c_string(key_file);
             options.threads = threads;
             options.jobs_max = jobs_max;
             options.groups_max = groups_max;
             options.bytes_max = bytes_max;
             options.total_max = total_max;
             options.topology = c_string(topology);
             options.name = c_string(name);
             new (self) Aggregator(options);
           },
           "address"_a, "port"_a, "device"_a.none(), "key_file"_a.none(), "threads"_a, "jobs_max"_a,
           "groups_max"_a, "bytes_max"_a, "total_max"_a, "topology"_a.none(), "name"_a.none())
      .def_prop_ro("port", &Aggregator::port)
      .def("stats", &Aggregator::stats)
      .def("close", &Aggregator::close);
}

}  // namespace nezha::python
