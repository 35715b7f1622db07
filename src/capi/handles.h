// Handles: the objects behind the handles of nezha.h, and what every function does with them first.
//
// Contract: a nezha_work is filled by the call that makes it and then only read; it may outlive its
// communicator once its operation has completed.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/fork_guard.h"
#include "capi/last_error.h"
#include "context/communicator.h"
#include "nezha/nezha.h"

struct nezha_comm {
  std::unique_ptr<nezha::context::Communicator> communicator;
  uint32_t generation = nezha::process_generation();
};

// One operation, or the operations of a group.
struct nezha_work {
  nezha::context::Communicator* communicator = nullptr;
  nezha::engine::Work work;
  std::unique_ptr<nezha::context::Batch> batch;
  uint32_t generation = nezha::process_generation();

  bool is_done() const { return batch != nullptr ? batch->is_done() : work.is_done(); }
  nezha::Status status() const { return batch != nullptr ? batch->status() : work.status(); }
  bool wait(nezha::Nanoseconds deadline) {
    return batch != nullptr ? communicator->wait(*batch, deadline)
                            : communicator->wait(work, deadline);
  }
  void wait_or_abort() {
    batch != nullptr ? communicator->wait_or_abort(*batch) : communicator->wait_or_abort(work);
  }
  bool test() {
    return batch != nullptr ? communicator->test(*batch) : communicator->test(work);
  }
};

namespace nezha::capi {

// A struct from an older caller is shorter: fields that it does not have keep their defaults.
template <class Struct>
Status read_sized(const Struct* given, Struct* out) {
  if (given == nullptr) return Status::ok();
  if (given->struct_size < sizeof(size_t) || given->struct_size > 4096) {
    return error(Code::invalid_argument, "struct_size is %zu: set it to sizeof the struct",
                 given->struct_size);
  }
  std::memcpy(out, given, std::min(given->struct_size, sizeof(Struct)));
  return Status::ok();
}

template <class Handle>
bool is_from_before_fork(const Handle* handle) {
  return handle->generation != nezha::process_generation();
}

Status check(nezha_comm_t comm);
Status check(nezha_work_t work);
// `given` may be null.
Status read_options(const nezha_op_options* given, context::CallOptions* out);

// Gives the caller the handle. A caller that would have waited at once gets the outcome in its
// place, if the operation is done.
inline Status hand_out(std::unique_ptr<nezha_work> handle, const context::CallOptions& options,
                       nezha_work_t* out) {
  *out = nullptr;
  if (options.will_wait && handle->is_done()) return handle->status();
  *out = handle.release();
  return Status::ok();
}

// Runs `call(communicator, options, work)`; with `out` the operation goes on behind a handle.
template <class Call>
nezha_code operation(nezha_comm_t comm, const nezha_op_options* given, nezha_work_t* out,
                     Call call) {
  return guarded([&]() -> Status {
    NEZHA_RETURN_IF_ERROR(check(comm));
    context::CallOptions options;
    NEZHA_RETURN_IF_ERROR(read_options(given, &options));
    context::Communicator& communicator = *comm->communicator;
    if (out == nullptr) return call(communicator, options, static_cast<engine::Work*>(nullptr));
    auto handle = std::make_unique<nezha_work>();
    handle->communicator = &communicator;
    NEZHA_RETURN_IF_ERROR(call(communicator, options, &handle->work));
    return hand_out(std::move(handle), options, out);
  });
}

}  // namespace nezha::capi
