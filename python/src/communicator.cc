#include "communicator.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <vector>

#include "bindings.h"
#include "errors.h"
#include "exchange_bridge.h"
#include "interrupt.h"
#include "text.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace nezha::python {
namespace {

void give_up(nezha_comm_t comm) {
  if (comm == nullptr) return;
  nb::gil_scoped_release no_gil;
  nezha_comm_abort(comm);
  nezha_destroy(comm);
}

}  // namespace

Communicator::Communicator(std::shared_ptr<Handle> handle) : handle_(std::move(handle)) {
  Handle::Lease lease(handle_);
  check(nezha_rank(lease.raw(), &rank));
  check(nezha_world_size(lease.raw(), &world_size));
}

// May come when Python runs no more: no signal is heard, and nothing imported.
Communicator::~Communicator() {
  groups_.clear();
  handle_->abandon();
}

void Communicator::close(Given timeout) {
  const double seconds = to_timeout(timeout).value_or(-1);
  groups_.clear();  // what was noted and never started
  handle_->close(seconds);
}

void Communicator::abort() {
  Handle::Lease lease(handle_);
  nb::gil_scoped_release no_gil;
  nezha_comm_abort(lease.raw());
}

// An exception of a signal handler ends the call, and closes a communicator that it made all the same,
// which nobody else could close.
template <class Make>
std::unique_ptr<Communicator> Communicator::child_of(Make make) {
  Handle::Lease lease(handle_);
  Interruptible waiting;
  nezha_comm_t child = nullptr;
  Failure failure;
  {
    nb::gil_scoped_release no_gil;
    failure = failure_of(make(lease.raw(), &child));
  }
  if (waiting.will_rethrow()) give_up(child);
  waiting.rethrow();
  if (failure) raise(failure);
  if (child == nullptr) return nullptr;
  return std::make_unique<Communicator>(std::make_shared<Handle>(child, handle_->store()));
}

std::unique_ptr<Communicator> Communicator::split(Given color, Given key) {
  const int part = converted<int>(color, "color", "an int, or None");
  const int order = converted<int>(key, "key", "an int");
  return child_of([&](nezha_comm_t comm, nezha_comm_t* child) {
    return nezha_split(comm, part, order, child);
  });
}

std::unique_ptr<Communicator> Communicator::create(Given members, Given group_name) {
  const auto ranks = converted<std::vector<int>>(members, "ranks", "a sequence of ints");
  const auto name = converted<std::string>(group_name, "name", "a str");
  return child_of([&](nezha_comm_t comm, nezha_comm_t* child) {
    return nezha_create(comm, ranks.data(), static_cast<int>(ranks.size()), name.c_str(), child);
  });
}

std::unique_ptr<Communicator> Communicator::shrink(Given timeout) {
  const double seconds = to_timeout(timeout).value_or(0);
  return child_of([&](nezha_comm_t comm, nezha_comm_t* child) {
    return nezha_shrink(comm, seconds, child);
  });
}

std::string Communicator::describe(const char* what) {
  Handle::Lease lease(handle_);
  return whole_text([&](char* text, size_t size, size_t* needed) {
    return nezha_describe(lease.raw(), what, text, size, needed);
  });
}

std::string Communicator::dump_flight(const OptionalText& path) {
  Handle::Lease lease(handle_);
  return whole_text([&](char* text, size_t size, size_t* needed) {
    return nezha_dump_flight(lease.raw(), c_string(path), text, size, needed);
  });
}

void Communicator::load_table(const std::string& json) {
  Handle::Lease lease(handle_);
  check(nezha_load_table(lease.raw(), json.c_str()));
}

namespace {

std::unique_ptr<Communicator> init(int rank, int world_size, const OptionalText& store,
                                   nb::object store_object, const OptionalText& job,
                                   double timeout, const std::string& config, nb::object mpi) {
  std::shared_ptr<StoreBridge> bridge;
  if (!store_object.is_none()) bridge = std::make_shared<StoreBridge>(store_object);
  std::optional<ExchangeBridge> exchange;
  if (!mpi.is_none()) exchange.emplace(mpi);
  nezha_init_options options{};
  options.struct_size = sizeof(options);
  options.rank = rank;
  options.world_size = world_size;
  options.store = c_string(store);
  options.job = c_string(job);
  options.callbacks = bridge ? bridge->callbacks() : nullptr;
  options.timeout_s = timeout;
  options.config = config.c_str();
  options.exchange = exchange ? exchange->functions() : nullptr;
  nezha_comm_t raw = nullptr;
  Failure failure;
  Interruptible waiting;
  {
    nb::gil_scoped_release no_gil;
    failure = failure_of(nezha_init(&options, &raw));
  }
  if (waiting.will_rethrow()) give_up(raw);  // the job may have formed all the same
  waiting.rethrow();
  const nb::handle cause = bridge ? bridge->first_error() : exchange ? exchange->error() : nb::handle();
  if (failure) raise(failure, cause);
  return std::make_unique<Communicator>(std::make_shared<Handle>(raw, bridge));
}

}  // namespace

void bind_communicator(nb::module_& module) {
  using C = Communicator;
  nb::class_<C>(module, "Communicator", nb::is_weak_referenceable())
      .def_ro("rank", &C::rank)
      .def_ro("world_size", &C::world_size)
      .def_prop_ro("closed", &C::closed)
      .def("all_reduce", &C::all_reduce, "x"_a.none(), "op"_a.none(), "out"_a.none(), "factor"_a.none(),
           "algorithm"_a.none(), "timeout"_a.none(), "async_op"_a.none())
      .def("broadcast", &C::broadcast, "x"_a.none(), "root"_a.none(), "algorithm"_a.none(),
           "timeout"_a.none(), "async_op"_a.none())
      .def("all_gather", &C::all_gather, "x"_a.none(), "out"_a.none(), "algorithm"_a.none(),
           "timeout"_a.none(), "async_op"_a.none())
      .def("all_gather_v", &C::all_gather_v, "x"_a.none(), "out"_a.none(), "counts"_a.none(),
           "algorithm"_a.none(), "timeout"_a.none(), "async_op"_a.none())
      .def("reduce_scatter", &C::reduce_scatter, "x"_a.none(), "out"_a.none(), "op"_a.none(),
           "factor"_a.none(), "algorithm"_a.none(), "timeout"_a.none(), "async_op"_a.none())
      .def("reduce_scatter_v", &C::reduce_scatter_v, "x"_a.none(), "out"_a.none(), "counts"_a.none(),
           "op"_a.none(), "factor"_a.none(), "algorithm"_a.none(), "timeout"_a.none(),
           "async_op"_a.none())
      .def("reduce", &C::reduce, "x"_a.none(), "root"_a.none(), "op"_a.none(), "out"_a.none(),
           "factor"_a.none(), "algorithm"_a.none(), "timeout"_a.none(), "async_op"_a.none())
      .def("gather", &C::gather, "x"_a.none(), "out"_a.none(), "root"_a.none(), "algorithm"_a.none(),
           "timeout"_a.none(), "async_op"_a.none())
      .def("scatter", &C::scatter, "x"_a.none(), "out"_a.none(), "root"_a.none(), "algorithm"_a.none(),
           "timeout"_a.none(), "async_op"_a.none())
      .def("all_to_all", &C::all_to_all, "x"_a.none(), "out"_a.none(), "algorithm"_a.none(),
           "timeout"_a.none(), "async_op"_a.none())
      .def("all_to_all_v", &C::all_to_all_v, "x"_a.none(), "send_counts"_a.none(), "out"_a.none(),
           "receive_counts"_a.none(), "algorithm"_a.none(), "timeout"_a.none(), "async_op"_a.none())
      .def("barrier", &C::barrier, "timeout"_a.none(), "async_op"_a.none())
      .def("send", &C::send, "x"_a.none(), "destination"_a.none(), "tag"_a.none(), "timeout"_a.none(),
           "async_op"_a.none())
      .def("recv", &C::recv, "x"_a.none(), "source"_a.none(), "tag"_a.none(), "timeout"_a.none(),
           "async_op"_a.none())
      .def("probe", &C::probe, "source"_a.none(), "tag"_a.none())
      .def("group_begin", &C::group_begin)
      .def("group_end", &C::group_end, "timeout"_a.none(), "async_op"_a.none())
      .def("group_cancel", &C::group_cancel)
      .def("split", &C::split, "color"_a.none(), "key"_a.none())
      .def("create", &C::create, "ranks"_a.none(), "name"_a.none())
      .def("shrink", &C::shrink, "timeout"_a.none())
      .def("abort", &C::abort)
      .def("close", &C::close, "timeout"_a.none())
      .def("describe", &C::describe, "what"_a)
      .def("dump_flight", &C::dump_flight, "path"_a.none())
      .def("load_table", &C::load_table, "json"_a);
  module.def("init", &init, "rank"_a, "world_size"_a, "store"_a.none(), "store_object"_a.none(),
             "job"_a.none(), "timeout"_a, "config"_a, "mpi"_a.none());
}

}  // namespace nezha::python
