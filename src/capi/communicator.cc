// nezha.h: communicators and operations.
#include <algorithm>
#include <memory>
#include <string>

#include "capi/fork_guard.h"
#include "capi/last_error.h"
#include "context/communicator.h"
#include "nezha/nezha.h"

using nezha::Algorithm;
using nezha::Code;
using nezha::error;
using nezha::Result;
using nezha::Status;
using nezha::capi::guarded;
using nezha::context::CallOptions;
using nezha::context::Communicator;
using nezha::context::Context;
using nezha::context::ContextRequest;

struct nezha_comm {
  std::unique_ptr<Communicator> communicator;
  uint32_t generation = nezha::capi::process_generation();
};

struct nezha_work {
  Communicator* communicator = nullptr;
  nezha::engine::Work work;
  uint32_t generation = nezha::capi::process_generation();
};

namespace {

// A struct from an older caller is shorter: what it does not have keeps its default.
template <class Struct>
Status read_sized(const Struct* given, Struct* out) {
  if (given == nullptr) return Status::ok();
  if (given->struct_size < sizeof(size_t) || given->struct_size > 4096) {
    return error(Code::invalid_argument, "struct_size is %zu: set it to sizeof the struct",
                 given->struct_size);
  }
  __builtin_memcpy(out, given, std::min(given->struct_size, sizeof(Struct)));
  return Status::ok();
}

Status read_options(const nezha_op_options* given, CallOptions* out) {
  nezha_op_options options{sizeof(nezha_op_options), 1.0, 0, nullptr, 0};
  NEZHA_RETURN_IF_ERROR(read_sized(given, &options));
  out->factor = options.factor;
  out->timeout_s = options.timeout_s;
  out->will_wait = options.will_wait != 0;
  if (options.algorithm == nullptr || options.algorithm[0] == '\0') return Status::ok();
  const auto algorithm = nezha::algorithm_from_name(options.algorithm);
  if (!algorithm) {
    return error(Code::invalid_argument, "algorithm '%s' does not exist; see `nezha explain`",
                 options.algorithm);
  }
  out->algorithm = *algorithm;
  return Status::ok();
}

template <class Handle>
bool is_from_before_fork(const Handle* handle) {
  return handle->generation != nezha::capi::process_generation();
}

Status check(nezha_comm_t comm) {
  if (comm == nullptr) return error(Code::invalid_argument, "the communicator is NULL");
  if (!is_from_before_fork(comm)) return Status::ok();
  return error(Code::invalid_argument, "the communicator was made before fork(): a child process "
               "cannot use it; call nezha_init in the child, or use spawn");
}

Status check(nezha_work_t work) {
  if (work == nullptr) return error(Code::invalid_argument, "the work handle is NULL");
  if (!is_from_before_fork(work)) return Status::ok();
  return error(Code::invalid_argument, "the work handle was made before fork()");
}

// Runs `call(options, work)`; with `out` the operation goes on behind a handle.
template <class Call>
nezha_code operation(nezha_comm_t comm, const nezha_op_options* given, nezha_work_t* out,
                     Call call) {
  return guarded([&]() -> Status {
    NEZHA_RETURN_IF_ERROR(check(comm));
    CallOptions options;
    NEZHA_RETURN_IF_ERROR(read_options(given, &options));
    if (out == nullptr) return call(options, nullptr);
    auto handle = std::make_unique<nezha_work>();
    handle->communicator = comm->communicator.get();
    NEZHA_RETURN_IF_ERROR(call(options, &handle->work));
    *out = handle.release();
    return Status::ok();
  });
}

}  // namespace

extern "C" {

nezha_code nezha_init(const nezha_init_options* given, nezha_comm_t* out) {
  return guarded([&]() -> Status {
    if (given == nullptr || out == nullptr) {
      return error(Code::invalid_argument, "nezha_init needs options and a place for the result");
    }
    nezha_init_options options{};
    NEZHA_RETURN_IF_ERROR(read_sized(given, &options));
    ContextRequest request;
    request.rank = options.rank;
    request.world_size = options.world_size;
    if (options.store != nullptr) request.store = options.store;
    if (options.job != nullptr) request.job = options.job;
    request.timeout_s = options.timeout_s;
    if (options.config != nullptr) request.config = options.config;
    nezha::rendezvous::StoreCallbacks callbacks;
    if (options.callbacks != nullptr) {
      nezha_store_callbacks theirs{};
      NEZHA_RETURN_IF_ERROR(read_sized(options.callbacks, &theirs));
      callbacks = {theirs.user, theirs.set, theirs.get, theirs.set_if_absent, theirs.remove};
      request.callbacks = &callbacks;
    }
    auto context = Context::create(request);
    if (!context) return context.status();
    auto world = Communicator::world(std::move(*context));
    if (!world) return world.status();
    *out = new nezha_comm{.communicator = std::move(*world)};
    return Status::ok();
  });
}

void nezha_destroy(nezha_comm_t comm) {
  if (comm != nullptr && !is_from_before_fork(comm)) delete comm;
}

nezha_code nezha_rank(nezha_comm_t comm, int* rank) {
  return guarded([&]() -> Status {
    NEZHA_RETURN_IF_ERROR(check(comm));
    *rank = comm->communicator->rank();
    return Status::ok();
  });
}

nezha_code nezha_world_size(nezha_comm_t comm, int* world_size) {
  return guarded([&]() -> Status {
    NEZHA_RETURN_IF_ERROR(check(comm));
    *world_size = comm->communicator->world_size();
    return Status::ok();
  });
}

nezha_code nezha_split(nezha_comm_t comm, int color, int key, nezha_comm_t* out) {
  return guarded([&]() -> Status {
    NEZHA_RETURN_IF_ERROR(check(comm));
    auto part = comm->communicator->split(color, key);
    if (!part) return part.status();
    *out = *part == nullptr ? nullptr : new nezha_comm{.communicator = std::move(*part)};
    return Status::ok();
  });
}

nezha_code nezha_all_reduce(nezha_comm_t comm, const void* in, void* out, uint64_t count,
                            nezha_dtype dtype, nezha_op op, const nezha_op_options* options,
                            nezha_work_t* work) {
  return operation(comm, options, work, [&](const CallOptions& call, nezha::engine::Work* handle) {
    return comm->communicator->all_reduce(in, out, count, static_cast<nezha::Dtype>(dtype),
                                          static_cast<nezha::ReduceOp>(op), call, handle);
  });
}

nezha_code nezha_broadcast(nezha_comm_t comm, void* buffer, uint64_t count, nezha_dtype dtype,
                           int root, const nezha_op_options* options, nezha_work_t* work) {
  return operation(comm, options, work, [&](const CallOptions& call, nezha::engine::Work* handle) {
    return comm->communicator->broadcast(buffer, count, static_cast<nezha::Dtype>(dtype), root,
                                         call, handle);
  });
}

nezha_code nezha_barrier(nezha_comm_t comm, const nezha_op_options* options, nezha_work_t* work) {
  return operation(comm, options, work, [&](const CallOptions& call, nezha::engine::Work* handle) {
    return comm->communicator->barrier(call, handle);
  });
}

nezha_code nezha_test(nezha_work_t work, int* done) {
  return guarded([&]() -> Status {
    NEZHA_RETURN_IF_ERROR(check(work));
    if (done == nullptr) return error(Code::invalid_argument, "nezha_test needs a place to answer");
    *done = work->work.is_done() || work->communicator->test(work->work) ? 1 : 0;
    return *done ? work->work.status() : Status::ok();
  });
}

nezha_code nezha_wait(nezha_work_t work, double timeout_s) {
  return guarded([&]() -> Status {
    NEZHA_RETURN_IF_ERROR(check(work));
    const auto deadline = timeout_s > 0
                              ? nezha::deadline_after(nezha::system_clock(), timeout_s)
                              : nezha::kNever;
    // A finished operation may outlive its communicator.
    if (work->work.is_done() || work->communicator->wait(work->work, deadline)) {
      return work->work.status();
    }
    return error(Code::timed_out, "rank %d: the operation was not complete after %g s; it goes on, "
                 "wait again or abort it", work->communicator->rank(), timeout_s);
  });
}

nezha_code nezha_abort(nezha_work_t work) {
  return guarded([&]() -> Status {
    NEZHA_RETURN_IF_ERROR(check(work));
    if (!work->work.is_done()) work->communicator->abort();
    return Status::ok();
  });
}

nezha_code nezha_comm_abort(nezha_comm_t comm) {
  return guarded([&]() -> Status {
    NEZHA_RETURN_IF_ERROR(check(comm));
    comm->communicator->abort();
    return Status::ok();
  });
}

void nezha_work_free(nezha_work_t work) {
  if (work == nullptr || is_from_before_fork(work)) return;
  if (!work->work.is_done()) work->communicator->wait(work->work, nezha::kNever);
  delete work;
}

nezha_code nezha_describe(nezha_comm_t comm, const char* what, char* text, size_t size,
                          size_t* needed) {
  std::string content;
  const nezha_code code = guarded([&]() -> Status {
    NEZHA_RETURN_IF_ERROR(check(comm));
    const std::string topic = what == nullptr ? "" : what;
    Context& context = comm->communicator->context();
    if (topic == "rails") content = context.rails_json();
    else if (topic == "stats") content = context.stats_json();
    else if (topic == "config") content = context.config().to_json();
    else if (topic == "table") content = comm->communicator->table_json();
    else return error(Code::invalid_argument, "cannot describe '%s': rails, stats, config or table",
                      topic.c_str());
    return Status::ok();
  });
  return code != NEZHA_OK ? code : nezha::capi::give_text(content, text, size, needed);
}

nezha_code nezha_load_table(nezha_comm_t comm, const char* json) {
  return guarded([&]() -> Status {
    NEZHA_RETURN_IF_ERROR(check(comm));
    return comm->communicator->load_table(json == nullptr ? "" : json);
  });
}

}  // extern "C"
