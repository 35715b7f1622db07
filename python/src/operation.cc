#include "operation.h"

#include <algorithm>
#include <chrono>

#include "errors.h"

namespace nb = nanobind;

namespace nezha::python {
namespace {

// How long a waiting thread stays in C before it looks for Python signals.
constexpr double kSliceSeconds = 0.1;
constexpr double kPollSeconds = 1e-6;

using Clock = std::chrono::steady_clock;

}  // namespace

Operation::~Operation() {
  if (work_ == nullptr) return;
  // Only reached when start() was left by an exception: the operation is over or aborted.
  nb::gil_scoped_release no_gil;
  nezha_work_free(work_);
}

bool Operation::poll() {
  if (done_) return true;
  int done = 0;
  const nezha_code code = nezha_test(work_, &done);
  if (!done) return false;
  complete(code == NEZHA_OK ? nullptr : std::make_unique<Failure>(failure_of(code)));
  return done_;
}

bool Operation::wait(double timeout_s) { return wait_in_slices(timeout_s, /*signals=*/true); }

bool Operation::wait_quietly(double timeout_s) {
  return wait_in_slices(timeout_s, /*signals=*/false);
}

void Operation::outcome() const {
  if (failure_ != nullptr) raise(*failure_);
}

void Operation::abort() {
  if (done_) return;
  ++waiters_;
  {
    nb::gil_scoped_release no_gil;
    nezha_abort(work_);
  }
  --waiters_;
  let_go();
}

bool Operation::wait_slice(double seconds) {
  ++waiters_;
  int done = 1;
  std::unique_ptr<Failure> failure;
  {
    nb::gil_scoped_release no_gil;
    nezha_code code = nezha_wait(work_, seconds);
    // A wait that timed out and an operation that timed out have the same code.
    if (code == NEZHA_TIMED_OUT) code = nezha_test(work_, &done);
    if (done && code != NEZHA_OK) failure = std::make_unique<Failure>(failure_of(code));
  }
  --waiters_;
  if (done) complete(std::move(failure));
  return done_;
}

bool Operation::wait_in_slices(double timeout_s, bool signals) {
  const auto start = Clock::now();
  while (!done_) {
    double slice = kSliceSeconds;
    if (timeout_s >= 0) {
      const double left = timeout_s - std::chrono::duration<double>(Clock::now() - start).count();
      if (left <= 0) return poll();
      slice = std::clamp(left, kPollSeconds, kSliceSeconds);
    }
    if (wait_slice(slice)) break;
    if (signals && PyErr_CheckSignals() != 0) throw nb::python_error();
  }
  return true;
}

void Operation::wait_blocking() {
  do {
    if (PyErr_CheckSignals() == 0) continue;
    nb::python_error interrupted;
    abort();
    wait_quietly(-1);
    throw interrupted;
  } while (!wait_slice(kSliceSeconds));
}

void Operation::complete(std::unique_ptr<Failure> failure) {
  if (!done_) {
    done_ = true;
    failure_ = std::move(failure);
    if (work_ != nullptr) {
      nezha_work_source(work_, &source_);
      nezha_work_tag(work_, &tag_);
    }
  }
  let_go();
}

void Operation::let_go() {
  if (!done_ || waiters_ > 0 || !lease_) return;
  nezha_work_free(work_);  // null after a refused start, which is allowed
  work_ = nullptr;
  input.release();
  output.release();
  parts.clear();
  lease_.reset();
}

}  // namespace nezha::python
