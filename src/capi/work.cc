// nezha.h: groups of operations, and the handles of those under way.
#include "base/interrupt.h"
#include "capi/handles.h"

using nezha::Code;
using nezha::error;
using nezha::Status;
using nezha::capi::check;
using nezha::capi::guarded;
using nezha::capi::is_from_before_fork;

namespace {

// Answers with what `read` finds in the work of a complete receive about the message that it took.
template <class T, class Read>
nezha_code of_message(nezha_work_t work, const char* call, T* out, Read read) {
  return guarded([&]() -> Status {
    NEZHA_RETURN_IF_ERROR(check(work));
    if (out == nullptr) {
      return error(Code::invalid_argument, "%s needs a pointer for the result", call);
    }
    if (!work->is_done()) {
      return error(Code::invalid_argument, "%s: the receive is not complete, so its message is unknown; "
                   "wait for it first", call);
    }
    *out = read(work->work);
    return Status::ok();
  });
}

}  // namespace

extern "C" {

nezha_code nezha_group_begin(nezha_comm_t comm) {
  return guarded([&]() -> Status {
    NEZHA_RETURN_IF_ERROR(check(comm));
    return comm->communicator->group_begin();
  });
}

nezha_code nezha_group_end(nezha_comm_t comm, const nezha_op_options* given, nezha_work_t* out) {
  return guarded([&]() -> Status {
    NEZHA_RETURN_IF_ERROR(check(comm));
    nezha::context::CallOptions options;
    NEZHA_RETURN_IF_ERROR(nezha::capi::read_options(given, &options));
    if (out == nullptr) return comm->communicator->group_end(options, nullptr);
    auto handle = std::make_unique<nezha_work>();
    handle->communicator = comm->communicator.get();
    NEZHA_RETURN_IF_ERROR(comm->communicator->group_end(options, &handle->batch));
    return nezha::capi::hand_out(std::move(handle), options, out);
  });
}

nezha_code nezha_group_cancel(nezha_comm_t comm) {
  return guarded([&]() -> Status {
    NEZHA_RETURN_IF_ERROR(check(comm));
    return comm->communicator->group_cancel();
  });
}

nezha_code nezha_work_source(nezha_work_t work, int* source) {
  return of_message(work, "nezha_work_source", source, [](const nezha::engine::Work& done) {
    return done.source;
  });
}

nezha_code nezha_work_tag(nezha_work_t work, uint32_t* tag) {
  return of_message(work, "nezha_work_tag", tag, [](const nezha::engine::Work& done) {
    return done.tag;
  });
}

nezha_code nezha_test(nezha_work_t work, int* done) {
  return guarded([&]() -> Status {
    NEZHA_RETURN_IF_ERROR(check(work));
    if (done == nullptr) {
      return error(Code::invalid_argument, "nezha_test needs a pointer for the result");
    }
    *done = work->is_done() || work->test() ? 1 : 0;
    return *done ? work->status() : Status::ok();
  });
}

nezha_code nezha_wait(nezha_work_t work, double timeout_s) {
  return guarded([&]() -> Status {
    NEZHA_RETURN_IF_ERROR(check(work));
    const auto deadline = timeout_s > 0
                              ? nezha::deadline_after(nezha::system_clock(), timeout_s)
                              : nezha::kNever;
    // A finished operation may outlive its communicator.
    if (work->is_done() || work->wait(deadline)) return work->status();
    const int rank = work->communicator->rank();
    Status still =
        nezha::interrupted()
            ? error(Code::timed_out, "rank %d: the wait was interrupted; the operation continues; wait "
                    "again or abort it", rank)
            : error(Code::timed_out, "rank %d: the operation was not complete after %g s; it "
                    "continues; wait again or abort it", rank, timeout_s);
    return still.with({.goes_on = true});
  });
}

nezha_code nezha_abort(nezha_work_t work) {
  return guarded([&]() -> Status {
    NEZHA_RETURN_IF_ERROR(check(work));
    if (!work->is_done()) work->communicator->abort();
    return Status::ok();
  });
}

void nezha_work_free(nezha_work_t work) {
  if (work == nullptr || is_from_before_fork(work)) return;
  if (!work->is_done()) work->wait_or_abort();
  delete work;
}

}  // extern "C"
