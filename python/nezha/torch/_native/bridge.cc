// The optional compiled part of nezha.torch: a c10d Backend and Work that forward to Python objects.
//
// torch's own trampoline for backends written in Python wraps the Work that they return in a class
// that forwards only wait() and get_future(); callers then see is_completed() False for ever, and no
// source rank. Bridge stands between: torch calls it, it calls the Python backend, and its BridgeWork
// forwards every method. What needs no Python takes the direct path (direct.h). Built on the user's
// machine by build.py, for one version of torch.
//
// Contract: c10d calls without the GIL, from any thread; every method takes it. Python exceptions pass
// through C++ to the Python caller unchanged. Objects that outlive the interpreter let go of nothing.
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/extension.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "direct.h"
#include "works.h"

namespace py = pybind11;

namespace {

using nezha::torch_bridge::BridgeWork;
using nezha::torch_bridge::Direct;
using nezha::torch_bridge::Held;
using nezha::torch_bridge::Milliseconds;
using nezha::torch_bridge::Tensors;
using TensorLists = std::vector<std::vector<at::Tensor>>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using BackendPtr = c10::intrusive_ptr<c10d::Backend>;

class Bridge : public c10d::Backend {
 public:
  Bridge(py::object backend, int rank, int size)
      : c10d::Backend(rank, size), backend_(std::move(backend)), direct_(backend_.get()) {}

  const py::object& backend() const { return backend_.get(); }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) override {
    if (auto work = direct_.broadcast(tensors, opts)) return *work;
    return start("broadcast", tensors, opts);
  }
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) override {
    if (auto work = direct_.all_reduce(tensors, opts)) return *work;
    return start("allreduce", tensors, opts);
  }
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts) override {
    return start("allreduce_sparse", tensors, opts);
  }
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& opts) override {
    return start("allreduce_coalesced", tensors, opts);
  }
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& opts) override {
    return start("reduce", tensors, opts);
  }
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& opts) override {
    return start("allgather", outputs, inputs, opts);
  }
  WorkPtr allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& opts) override {
    return start("allgather_coalesced", outputs, inputs, opts);
  }
  WorkPtr all_gather_single(at::Tensor& output, at::Tensor& input,
                            const c10d::AllgatherOptions& opts) override {
    if (auto work = direct_.all_gather(output, input, opts, size_)) return *work;
    return start("all_gather_single", output, input, opts);
  }
  WorkPtr all_gather_single_coalesced(Tensors& outputs, Tensors& inputs,
                                      const c10d::AllgatherOptions& opts) override {
    return start("all_gather_single_coalesced", outputs, inputs, opts);
  }
  WorkPtr gather(TensorLists& outputs, Tensors& inputs,
                 const c10d::GatherOptions& opts) override {
    return start("gather", outputs, inputs, opts);
  }
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs,
                  const c10d::ScatterOptions& opts) override {
    return start("scatter", outputs, inputs, opts);
  }
  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs,
                         const c10d::ReduceScatterOptions& opts) override {
    return start("reduce_scatter", outputs, inputs, opts);
  }
  WorkPtr reduce_scatter_single(at::Tensor& output, at::Tensor& input,
                                const c10d::ReduceScatterOptions& opts) override {
    if (auto work = direct_.reduce_scatter(output, input, opts, size_)) return *work;
    return start("reduce_scatter_single", output, input, opts);
  }
  WorkPtr reduce_scatter_single_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& opts) override {
    return start("reduce_scatter_single_coalesced", outputs, inputs, opts);
  }
  WorkPtr all_to_all_single(at::Tensor& output, at::Tensor& input,
                            std::vector<int64_t>& output_splits,
                            std::vector<int64_t>& input_splits,
                            const c10d::AllToAllOptions& opts) override {
    return start("all_to_all_single", output, input, output_splits, input_splits, opts);
  }
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& opts) override {
    return start("alltoall", outputs, inputs, opts);
  }
  WorkPtr send(Tensors& tensors, int destination, int tag) override {
    return start("send", tensors, destination, tag);
  }
  WorkPtr recv(Tensors& tensors, int source, int tag) override {
    return start("recv", tensors, source, tag);
  }
  WorkPtr recvAnysource(Tensors& tensors, int tag) override {
    return start("recv_anysource", tensors, tag);
  }
  WorkPtr barrier(const c10d::BarrierOptions& opts) override { return start("barrier", opts); }

  void monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) override {
    backend_.call<void>("monitored_barrier", opts, wait_all_ranks);
  }

#ifdef C10D_BACKEND_HAS_RECONFIGURE
  WorkPtr gather_single(at::Tensor& output, at::Tensor& input,
                        const c10d::GatherOptions& opts) override {
    return start("gather_single", output, input, opts);
  }
  bool supportsReconfigure() const override { return true; }
  c10d::ReconfigureHandle get_reconfigure_handle() const override {
    return backend_.call<std::string>("get_reconfigure_handle");
  }
  WorkPtr reconfigure(const c10d::ReconfigureOptions& opts) override {
    WorkPtr work = start("reconfigure", opts);
    rank_ = backend_.call<int>("current_rank");
    size_ = backend_.call<int>("current_size");
    direct_.reset_count();
    return work;
  }
#endif

  const std::string getBackendName() const override {
    return backend_.call<std::string>("getBackendName");
  }
  c10::intrusive_ptr<Options> getBackendOptions() override {
    py::gil_scoped_acquire gil;
    return backend().attr("options").cast<c10::intrusive_ptr<Options>>();
  }
  bool supportsSplitting() const override { return true; }
  BackendPtr split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                   const c10::intrusive_ptr<Options>& opts) override {
    py::gil_scoped_acquire gil;
    const py::object child = backend().attr("split")(store, ranks, opts);
    return child.is_none() ? BackendPtr() : child.cast<BackendPtr>();
  }

  void setTimeout(Milliseconds timeout) override { backend_.call<void>("set_timeout", timeout); }
  void abort() override { backend_.call<void>("abort"); }
  void shutdown() override { backend_.call<void>("shutdown"); }
  c10d::ErrorType getError() override { return backend_.call<c10d::ErrorType>("get_error"); }
  uint64_t getSequenceNumberForGroup() override {
    return backend_.call<uint64_t>("_get_sequence_number_for_group") + direct_.count();
  }
  void setSequenceNumberForGroup() override {
    backend_.call<void>("_set_sequence_number_for_group");
    direct_.reset_count();
  }
  void waitForPendingWorks() override {}

 private:
  template <class... Args>
  WorkPtr start(const char* method, Args&&... args) {
    py::gil_scoped_acquire gil;
    py::object work = backend().attr(method)(std::forward<Args>(args)...);
    if (work.is_none()) return WorkPtr();  // the caller waited, and the operation is over
    return c10::make_intrusive<BridgeWork>(std::move(work));
  }

  Held backend_;
  Direct direct_;
};

BackendPtr make_backend(py::object backend, int rank, int size) {
  return c10::make_intrusive<Bridge>(std::move(backend), rank, size);
}

py::object implementation(const py::object& object) {
  if (!py::isinstance<c10d::Backend>(object)) return py::none();
  const auto* bridge = dynamic_cast<const Bridge*>(object.cast<BackendPtr>().get());
  return bridge == nullptr ? py::none() : bridge->backend();
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.def("make_backend", &make_backend);
  module.def("implementation", &implementation);
}
