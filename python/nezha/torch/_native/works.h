// What callers of torch.distributed hold of an operation: Works in C++ over objects of Python.
//
// Contract: c10d calls without the GIL, from any thread; every method takes it. Python exceptions pass
// through C++ to the Python caller unchanged. Objects that outlive the interpreter let go of nothing.
#pragma once

#include <pybind11/chrono.h>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/extension.h>

#include <chrono>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace nezha::torch_bridge {

using Milliseconds = std::chrono::milliseconds;
using Tensors = std::vector<at::Tensor>;

// A Python object that C++ may drop on any thread, also after the interpreter has ended.
class __attribute__((visibility("hidden"))) Held {
 public:
  explicit Held(pybind11::object object) : object_(std::move(object)) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    if (!Py_IsInitialized()) {
      object_.release();
      return;
    }
    pybind11::gil_scoped_acquire gil;
    object_ = pybind11::object();
  }

  const pybind11::object& get() const { return object_; }
  // With the GIL.
  void set(pybind11::object object) { object_ = std::move(object); }

  // The method's result as a C++ value.
  template <class Result, class... Args>
  Result call(const char* method, Args&&... args) const {
    pybind11::gil_scoped_acquire gil;
    if constexpr (std::is_void_v<Result>) {
      object_.attr(method)(std::forward<Args>(args)...);
    } else {
      return object_.attr(method)(std::forward<Args>(args)...).template cast<Result>();
    }
  }

 private:
  pybind11::object object_;
};

// Forwards every method to a Work in Python (_work.py).
class __attribute__((visibility("hidden"))) BridgeWork : public c10d::Work {
 public:
  explicit BridgeWork(pybind11::object work) : work_(std::move(work)) {}

  bool wait(Milliseconds timeout) override { return work().call<bool>("wait", timeout); }
  bool isCompleted() override { return work().call<bool>("is_completed"); }
  bool isSuccess() const override { return work().call<bool>("is_success"); }
  int sourceRank() const override { return work().call<int>("source_rank"); }
  void synchronize() override { wait(kNoTimeout); }
  Tensors result() override { return work().call<Tensors>("result"); }

  std::exception_ptr exception() const override {
    pybind11::gil_scoped_acquire gil;
    const pybind11::object error = work().get().attr("exception")();
    if (error.is_none()) return nullptr;
    return std::make_exception_ptr(std::runtime_error(pybind11::str(error).cast<std::string>()));
  }

  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    pybind11::gil_scoped_acquire gil;
    return work().get()
        .attr("get_future")()
        .cast<std::shared_ptr<torch::jit::PythonFutureWrapper>>()
        ->fut;
  }

 protected:
  virtual const Held& work() const { return work_; }
  mutable Held work_;
};

// An operation that the direct path has started. wait() asks the core itself; a Work in Python is made
// for whoever asks for more, or when there is an error to tell.
class __attribute__((visibility("hidden"))) StartedWork final : public BridgeWork {
 public:
  // `type`: the class of the Work in Python.
  StartedWork(pybind11::object native, pybind11::handle type, const at::Tensor& result)
      : BridgeWork(pybind11::none()), native_(std::move(native)), type_(type), result_({result}) {}

  bool wait(Milliseconds timeout) override {
    if (timeout != kNoTimeout) return BridgeWork::wait(timeout);
    try {
      native_.call<void>("wait");
      return true;
    } catch (pybind11::error_already_set& error) {
      pybind11::gil_scoped_acquire gil;
      if (!error.matches(PyExc_Exception)) throw;  // Ctrl-C: only the waiting is over
    }
    return BridgeWork::wait(timeout);
  }

 private:
  const Held& work() const override {
    pybind11::gil_scoped_acquire gil;
    if (work_.get().is_none()) {
      pybind11::object made = type_(native_.get(), result_);
      if (work_.get().is_none()) work_.set(std::move(made));  // nobody else made one meanwhile
    }
    return work_;
  }

  const Held native_;
  const pybind11::handle type_;
  const Tensors result_;
};

}  // namespace nezha::torch_bridge
