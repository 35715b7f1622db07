// Collectives whose caller waits, on plain tensors, from torch's C++ to the native Communicator.
//
// The path through Python (collectives.py) takes every tensor, option and device; a third of what it
// costs for a few bytes is torch's trampoline and a third the interpreter. This one takes the common
// case of the common operations and refuses all others, so that its results, errors, deadlines and
// marks in profiles are the same.
//
// Contract: called without the GIL, from any thread, and takes it. True: the operation is over, and
// succeeded. False: not a case for it, nothing has happened. Errors are those of the native call, as
// Calls._raise translates them.
#pragma once

#include <ATen/record_function.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/extension.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace nezha::torch_bridge {

class __attribute__((visibility("hidden"))) Direct {
 public:
  // `backend`: a Calls, which outlives this object.
  explicit Direct(pybind11::handle backend)
      : backend_(backend), name_(backend.attr("_name").cast<std::string>()) {}

  bool all_reduce(const std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& opts) {
    const char* op = name_of(opts.reduceOp);
    if (opts.asyncOp || op == nullptr || tensors.size() != 1 || !plain(tensors[0])) return false;
    return call(":all_reduce", "all_reduce", opts.timeout, tensors[0], op, nullptr, nullptr);
  }

  bool broadcast(const std::vector<at::Tensor>& tensors, const c10d::BroadcastOptions& opts) {
    if (opts.asyncOp || tensors.size() != 1 || !plain(tensors[0])) return false;
    return call(":broadcast", "broadcast", opts.timeout, tensors[0], opts.rootRank);
  }

  bool all_gather(const at::Tensor& output, const at::Tensor& input,
                  const c10d::AllgatherOptions& opts, int ranks) {
    if (opts.asyncOp || !alike(output, input)) return false;
    if (output.numel() != input.numel() * ranks) return false;
    return call(":all_gather_single", "all_gather", opts.timeout, input, output);
  }

  bool reduce_scatter(const at::Tensor& output, const at::Tensor& input,
                      const c10d::ReduceScatterOptions& opts, int ranks) {
    const char* op = name_of(opts.reduceOp);
    if (opts.asyncOp || op == nullptr || !alike(output, input)) return false;
    if (input.numel() != output.numel() * ranks) return false;
    return call(":reduce_scatter_single", "reduce_scatter", opts.timeout, input, output, op,
                nullptr);
  }

  // Operations of this path since the group began, for its sequence number.
  uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  void reset_count() { count_.store(0, std::memory_order_relaxed); }

 private:
  using Milliseconds = std::chrono::milliseconds;

  // Dense, contiguous, on the host, with values as stored, of a dtype that the core has.
  static bool plain(const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.is_cpu() || tensor.layout() != at::kStrided) return false;
    if (tensor.requires_grad() || tensor.is_neg() || !tensor.is_contiguous()) return false;
    switch (tensor.scalar_type()) {
      case at::kDouble: case at::kFloat: case at::kHalf: case at::kBFloat16:
      case at::kChar: case at::kByte: case at::kInt: case at::kLong:
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

  // Communicator.<method>(args..., algorithm=None, timeout, async_op=False).
  template <class... Args>
  bool call(const char* mark, const char* method, Milliseconds timeout, Args&&... args) {
    pybind11::gil_scoped_acquire gil;
    const pybind11::object comm = backend_.attr("_comm");
    if (comm.is_none() || !backend_.attr("_over").is_none()) return false;
    count_.fetch_add(1, std::memory_order_relaxed);
    RECORD_FUNCTION(name_ + mark, std::vector<c10::IValue>());
    try {
      comm.attr("_native").attr(method)(std::forward<Args>(args)..., nullptr, seconds(timeout),
                                        false);
    } catch (pybind11::error_already_set& error) {
      backend_.attr("_raise")(error.value());
      throw;
    }
    return true;
  }

  pybind11::object seconds(Milliseconds timeout) const {
    if (timeout < Milliseconds(0)) return backend_.attr("_timeout");  // none was named
    if (timeout == Milliseconds(0)) return pybind11::none();
    return pybind11::float_(std::chrono::duration<double>(timeout).count());
  }

  const pybind11::handle backend_;
  const std::string name_;
  std::atomic<uint64_t> count_{0};
};

}  // namespace nezha::torch_bridge
