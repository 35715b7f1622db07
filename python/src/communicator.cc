#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "bindings.h"
#include "errors.h"
#include "handle.h"
#include "operation.h"
#include "text.h"
#include "work.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace nezha::python {
namespace {

constexpr std::array<std::string_view, 9> kOps = {"sum", "avg",  "prod", "min",       "max",
                                                  "band", "bor", "bxor", "premul_sum"};

nezha_op parse_op(const char* name) {
  for (size_t i = 0; i < kOps.size(); ++i) {
    if (kOps[i] == name) return static_cast<nezha_op>(i);
  }
  std::string known;
  for (std::string_view op : kOps) known += (known.empty() ? "" : ", ") + std::string(op);
  raise(NEZHA_INVALID_ARGUMENT, "op '" + std::string(name) + "' is unknown: use one of " + known);
}

using OptionalText = std::optional<std::string>;

const char* c_string(const OptionalText& text) { return text ? text->c_str() : nullptr; }

// The options of one call; the text is borrowed from its arguments.
nezha_op_options call_options(std::optional<double> timeout, const OptionalText& algorithm,
                              bool async_op) {
  if (timeout && !(*timeout > 0)) {
    raise(NEZHA_INVALID_ARGUMENT, "timeout must be a positive number of seconds, or None");
  }
  nezha_op_options options{};
  options.struct_size = sizeof(options);
  options.factor = 1.0;
  options.timeout_s = timeout.value_or(0);
  options.algorithm = c_string(algorithm);
  options.will_wait = async_op ? 0 : 1;
  return options;
}

double checked_factor(nezha_op op, std::optional<double> factor) {
  if (factor.has_value() != (op == NEZHA_PREMUL_SUM)) {
    raise(NEZHA_INVALID_ARGUMENT, factor ? "factor belongs to op='premul_sum' only"
                                         : "op='premul_sum' needs factor=");
  }
  return factor.value_or(1.0);
}

class Communicator {
 public:
  explicit Communicator(std::shared_ptr<Handle> handle) : handle_(std::move(handle)) {
    Handle::Lease lease(handle_);
    check(nezha_rank(lease.raw(), &rank));
    check(nezha_world_size(lease.raw(), &world_size));
  }

  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  // Unfinished operations hold the handle, so it would never end by itself.
  ~Communicator() { handle_->close(0); }

  int rank = -1;
  int world_size = 0;

  bool closed() const { return handle_->closed(); }
  void close(std::optional<double> timeout) { handle_->close(timeout.value_or(-1)); }

  void abort() {
    Handle::Lease lease(handle_);
    nb::gil_scoped_release no_gil;
    nezha_comm_abort(lease.raw());
  }

  nb::object all_reduce(nb::handle x, const char* op_name, nb::handle out,
                        std::optional<double> factor, const OptionalText& algorithm,
                        std::optional<double> timeout, bool async_op) {
    const nezha_op op = parse_op(op_name);
    nezha_op_options options = call_options(timeout, algorithm, async_op);
    options.factor = checked_factor(op, factor);
    auto operation = std::make_shared<Operation>(Handle::Lease(handle_));
    Buffer& in = operation->input;
    in.acquire(x, out.is_none() ? Access::write : Access::read, "x");
    void* target = in.data();
    operation->result = nb::borrow(out.is_none() ? x : out);
    if (!out.is_none()) {
      operation->output.acquire(out, Access::write, "out");
      target = operation->output.data();
      check_same(in, operation->output);
    }
    return run(operation, async_op, [&](nezha_comm_t comm, nezha_work_t* work) {
      return nezha_all_reduce(comm, in.data(), target, in.count(), in.dtype(), op, &options, work);
    });
  }

  nb::object broadcast(nb::handle x, int root, const OptionalText& algorithm,
                       std::optional<double> timeout, bool async_op) {
    nezha_op_options options = call_options(timeout, algorithm, async_op);
    auto operation = std::make_shared<Operation>(Handle::Lease(handle_));
    Buffer& buffer = operation->input;
    buffer.acquire(x, rank == root ? Access::read : Access::write, "x");
    operation->result = nb::borrow(x);
    return run(operation, async_op, [&](nezha_comm_t comm, nezha_work_t* work) {
      return nezha_broadcast(comm, buffer.data(), buffer.count(), buffer.dtype(), root, &options,
                             work);
    });
  }

  nb::object barrier(std::optional<double> timeout, bool async_op) {
    nezha_op_options options = call_options(timeout, std::nullopt, async_op);
    auto operation = std::make_shared<Operation>(Handle::Lease(handle_));
    operation->result = nb::none();
    return run(operation, async_op, [&](nezha_comm_t comm, nezha_work_t* work) {
      return nezha_barrier(comm, &options, work);
    });
  }

  std::unique_ptr<Communicator> split(int color, int key) {
    Handle::Lease lease(handle_);
    nezha_comm_t child = nullptr;
    nezha_code code;
    std::string message;
    {
      nb::gil_scoped_release no_gil;
      code = nezha_split(lease.raw(), color, key, &child);
      if (code != NEZHA_OK) message = last_error();
    }
    if (code != NEZHA_OK) raise(code, message);
    if (child == nullptr) return nullptr;
    return std::make_unique<Communicator>(std::make_shared<Handle>(child, handle_->store()));
  }

  std::string describe(const char* what) {
    Handle::Lease lease(handle_);
    return whole_text([&](char* text, size_t size, size_t* needed) {
      return nezha_describe(lease.raw(), what, text, size, needed);
    });
  }

  void load_table(const std::string& json) {
    Handle::Lease lease(handle_);
    check(nezha_load_table(lease.raw(), json.c_str()));
  }

 private:
  static void check_same(const Buffer& in, const Buffer& out) {
    if (in.dtype() == out.dtype() && in.count() == out.count()) return;
    raise(NEZHA_INVALID_ARGUMENT,
          "x and out differ: " + std::to_string(in.count()) + " and " +
              std::to_string(out.count()) + " elements" +
              (in.dtype() == out.dtype() ? "" : ", of different dtypes") +
              ". Both need the same number of elements of the same dtype");
  }

  template <class Issue>
  nb::object run(std::shared_ptr<Operation>& operation, bool async_op, Issue&& issue) {
    operation->start(issue, /*block=*/!async_op);
    if (!async_op) return operation->result;
    handle_->add_unfinished(operation);
    return nb::cast(Work(operation, nb::find(this)));
  }

  std::shared_ptr<Handle> handle_;
};

std::unique_ptr<Communicator> init(int rank, int world_size, const OptionalText& store,
                                   nb::object store_object, const OptionalText& job,
                                   double timeout, const std::string& config) {
  std::shared_ptr<StoreBridge> bridge;
  if (!store_object.is_none()) bridge = std::make_shared<StoreBridge>(store_object);
  nezha_init_options options{};
  options.struct_size = sizeof(options);
  options.rank = rank;
  options.world_size = world_size;
  options.store = c_string(store);
  options.job = c_string(job);
  options.callbacks = bridge ? bridge->callbacks() : nullptr;
  options.timeout_s = timeout;
  options.config = config.c_str();
  nezha_comm_t raw = nullptr;
  nezha_code code;
  std::string message;
  {
    nb::gil_scoped_release no_gil;
    code = nezha_init(&options, &raw);
    if (code != NEZHA_OK) message = last_error();
  }
  if (code != NEZHA_OK) raise(code, message, bridge ? bridge->first_error() : nb::handle());
  return std::make_unique<Communicator>(std::make_shared<Handle>(raw, bridge));
}

}  // namespace

void bind_communicator(nb::module_& module) {
  nb::class_<Communicator>(module, "Communicator", nb::is_weak_referenceable())
      .def_ro("rank", &Communicator::rank)
      .def_ro("world_size", &Communicator::world_size)
      .def_prop_ro("closed", &Communicator::closed)
      .def("all_reduce", &Communicator::all_reduce, "x"_a.none(), "op"_a, "out"_a.none(),
           "factor"_a.none(), "algorithm"_a.none(), "timeout"_a.none(), "async_op"_a)
      .def("broadcast", &Communicator::broadcast, "x"_a.none(), "root"_a, "algorithm"_a.none(),
           "timeout"_a.none(), "async_op"_a)
      .def("barrier", &Communicator::barrier, "timeout"_a.none(), "async_op"_a)
      .def("split", &Communicator::split, "color"_a, "key"_a)
      .def("abort", &Communicator::abort)
      .def("close", &Communicator::close, "timeout"_a.none())
      .def("describe", &Communicator::describe, "what"_a)
      .def("load_table", &Communicator::load_table, "json"_a);
  module.def("init", &init, "rank"_a, "world_size"_a, "store"_a.none(), "store_object"_a.none(),
             "job"_a.none(), "timeout"_a, "config"_a);
}

}  // namespace nezha::python
