// Collectives on plain tensors, from torch's C++ to the native Communicator.
//
// The path through Python (collectives.py) takes every tensor, option and device; a third of what it
// costs for a few bytes is torch's trampoline and a third the interpreter. This one takes the common
// case of the common operations and refuses all others, so that its results, errors, deadlines and
// marks in profiles are the same.
//
// Contract: called without the GIL, from any thread, and takes it. Nothing: not a case for it, and
// nothing has happened. A null pointer: the caller waited, and the operation has succeeded. Errors are
// those of the native call, as Calls._raise translates them.
#pragma once

#include <ATen/record_function.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/extension.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "works.h"

namespace nezha::torch_bridge {

class __attribute__((visibility("hidden"))) Direct {
 public:
  using Started = std::optional<c10::intrusive_ptr<c10d::Work>>;

  // `backend`: a Calls, which outlives this object.
  explicit Direct(pybind11::handle backend)
      : backend_(backend), name_(backend.attr("_name").cast<std::string>()) {
    pybind11::object type = pybind11::module_::import("nezha.torch._work").attr("Work");
    work_type_ = type.release();
  }

  Started all_reduce(const Tensors& tensors, const c10d::AllreduceOptions& opts) {
    const char* op = name_of(opts.reduceOp);
    if (op == nullptr || tensors.size() != 1 || !plain(tensors[0])) return std::nullopt;
    return call(":all_reduce", "all_reduce", opts, tensors[0], tensors[0], op, nullptr, nullptr);
  }

  Started broadcast(const Tensors& tensors, const c10d::BroadcastOptions& opts) {
    if (tensors.size() != 1 || !plain(tensors[0])) return std::nullopt;
    return call(":broadcast", "broadcast", opts, tensors[0], tensors[0], opts.rootRank);
  }

  Started all_gather(const at::Tensor& output, const at::Tensor& input,
                     const c10d::AllgatherOptions& opts, int ranks) {
    if (!alike(output, input) || output.numel() != input.numel() * ranks) return std::nullopt;
    return call(":all_gather_single", "all_gather", opts, output, input, output);
  }

  Started reduce_scatter(const at::Tensor& output, const at::Tensor& input,
                         const c10d::ReduceScatterOptions& opts, int ranks) {
    const char* op = name_of(opts.reduceOp);
    if (op == nullptr || !alike(output, input)) return std::nullopt;
    if (input.numel() != output.numel() * ranks) return std::nullopt;
    return call(":reduce_scatter_single", "reduce_scatter", opts, output, input, output, op, nullptr);
  }

  // Operations of this path since the group began, for its sequence number.
  uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  void reset_count() { count_.store(0, std::memory_order_relaxed); }

 private:
  // Dense, contiguous, on the host, with values as stored, of a dtype that the core has.
  static bool plain(const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.is_cpu() || tensor.layout() != at::kStrided) return false;
    if (tensor.requires_grad() || tensor.is_neg() || !tensor.is_contiguous()) return false;
    switch (tensor.scalar_type()) {
      case at::kDouble: case at::kFloat: case at::kHalf: case at::kBFloat16:
      case at::kFloat8_e4m3fn: case at::kFloat8_e5m2:
      case at::kChar: case at::kByte: case at::kShort: case at::kInt: case at::kLong:
      case at::kUInt16: case at::kUInt32: case at::kUInt64:
        return true;
      default:
        return false;
    }
  }

  static bool alike(const at::Tensor& output, const at::Tensor& input) {
    return plain(output) && plain(input) && output.scalar_type() == input.scalar_type();
  }

  // Null for an operator that has more to it than its name.
  static const char* name_of(const c10d::ReduceOp& op) {
    switch (static_cast<c10d::ReduceOp::RedOpType>(op)) {
      case c10d::ReduceOp::SUM: return "sum";
      case c10d::ReduceOp::AVG: return "avg";
      case c10d::ReduceOp::PRODUCT: return "prod";
      case c10d::ReduceOp::MIN: return "min";
      case c10d::ReduceOp::MAX: return "max";
      case c10d::ReduceOp::BAND: return "band";
      case c10d::ReduceOp::BOR: return "bor";
      case c10d::ReduceOp::BXOR: return "bxor";
      default: return nullptr;
    }
  }

  // Communicator.<method>(args..., algorithm=None, timeout, async_op).
  template <class Options, class... Args>
  Started call(const char* mark, const char* method, const Options& opts, const at::Tensor& result,
               Args&&... args) {
    pybind11::gil_scoped_acquire gil;
    const pybind11::object comm = backend_.attr("_comm");
    if (comm.is_none() || !backend_.attr("_over").is_none()) return std::nullopt;
    count_.fetch_add(1, std::memory_order_relaxed);
    RECORD_FUNCTION(name_ + mark, std::vector<c10::IValue>());
    try {
      pybind11::object made = comm.attr("_native").attr(method)(
          std::forward<Args>(args)..., nullptr, seconds(opts.timeout), opts.asyncOp);
      if (!opts.asyncOp) return c10::intrusive_ptr<c10d::Work>();
      return c10::make_intrusive<StartedWork>(std::move(made), work_type_, result);
    } catch (pybind11::error_already_set& error) {
      backend_.attr("_raise")(error.value());
      throw;
    }
  }

  pybind11::object seconds(Milliseconds timeout) const {
    if (timeout < Milliseconds(0)) return backend_.attr("_timeout");  // none was named
    if (timeout == Milliseconds(0)) return pybind11::none();
    return pybind11::float_(std::chrono::duration<double>(timeout).count());
  }

  const pybind11::handle backend_;
  const std::string name_;
  pybind11::handle work_type_;  // held for good
  std::atomic<uint64_t> count_{0};
};

}  // namespace nezha::torch_bridge
