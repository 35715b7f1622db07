// nezha.h: the collectives and the messages.
#include "capi/handles.h"

using nezha::Code;
using nezha::Dtype;
using nezha::error;
using nezha::ReduceOp;
using nezha::Status;
using nezha::capi::check;
using nezha::capi::guarded;
using nezha::capi::operation;
using nezha::capi::read_sized;
using nezha::context::CallOptions;
using nezha::context::Communicator;
using nezha::engine::Work;

namespace {

// A value that the enumeration does not have stays one that it does not have.
Dtype to_dtype(nezha_dtype dtype) {
  const auto number = static_cast<unsigned>(dtype);
  return static_cast<Dtype>(number < nezha::kDtypeCount ? number : nezha::kDtypeCount);
}

ReduceOp to_op(nezha_op op) {
  const auto number = static_cast<unsigned>(op);
  return static_cast<ReduceOp>(number < nezha::kReduceOpCount ? number : nezha::kReduceOpCount);
}

}  // namespace

extern "C" {

nezha_code nezha_all_reduce(nezha_comm_t comm, const void* in, void* out, uint64_t count,
                            nezha_dtype dtype, nezha_op op, const nezha_op_options* options,
                            nezha_work_t* work) {
  return operation(comm, options, work, [&](Communicator& to, const CallOptions& call, Work* handle) {
    return to.all_reduce(in, out, count, to_dtype(dtype), to_op(op), call, handle);
  });
}

nezha_code nezha_broadcast(nezha_comm_t comm, void* buffer, uint64_t count, nezha_dtype dtype,
                           int root, const nezha_op_options* options, nezha_work_t* work) {
  return operation(comm, options, work, [&](Communicator& to, const CallOptions& call, Work* handle) {
    return to.broadcast(buffer, count, to_dtype(dtype), root, call, handle);
  });
}

nezha_code nezha_all_gather(nezha_comm_t comm, const void* in, void* out, uint64_t count,
                            nezha_dtype dtype, const nezha_op_options* options,
                            nezha_work_t* work) {
  return operation(comm, options, work, [&](Communicator& to, const CallOptions& call, Work* handle) {
    return to.all_gather(in, out, count, to_dtype(dtype), call, handle);
  });
}

nezha_code nezha_all_gather_v(nezha_comm_t comm, const void* in, void* out, const uint64_t* counts,
                              nezha_dtype dtype, const nezha_op_options* options,
                              nezha_work_t* work) {
  return operation(comm, options, work, [&](Communicator& to, const CallOptions& call, Work* handle) {
    return to.all_gather_v(in, out, counts, to_dtype(dtype), call, handle);
  });
}

nezha_code nezha_reduce_scatter(nezha_comm_t comm, const void* in, void* out, uint64_t count,
                                nezha_dtype dtype, nezha_op op, const nezha_op_options* options,
                                nezha_work_t* work) {
  return operation(comm, options, work, [&](Communicator& to, const CallOptions& call, Work* handle) {
    return to.reduce_scatter(in, out, count, to_dtype(dtype), to_op(op), call, handle);
  });
}

nezha_code nezha_reduce_scatter_v(nezha_comm_t comm, const void* in, void* out,
                                  const uint64_t* counts, nezha_dtype dtype, nezha_op op,
                                  const nezha_op_options* options, nezha_work_t* work) {
  return operation(comm, options, work, [&](Communicator& to, const CallOptions& call, Work* handle) {
    return to.reduce_scatter_v(in, out, counts, to_dtype(dtype), to_op(op), call, handle);
  });
}

nezha_code nezha_reduce(nezha_comm_t comm, const void* in, void* out, uint64_t count,
                        nezha_dtype dtype, nezha_op op, int root, const nezha_op_options* options,
                        nezha_work_t* work) {
  return operation(comm, options, work, [&](Communicator& to, const CallOptions& call, Work* handle) {
    return to.reduce(in, out, count, to_dtype(dtype), to_op(op), root, call, handle);
  });
}

nezha_code nezha_gather(nezha_comm_t comm, const void* in, void* out, uint64_t count,
                        nezha_dtype dtype, int root, const nezha_op_options* options,
                        nezha_work_t* work) {
  return operation(comm, options, work, [&](Communicator& to, const CallOptions& call, Work* handle) {
    return to.gather(in, out, count, to_dtype(dtype), root, call, handle);
  });
}

nezha_code nezha_scatter(nezha_comm_t comm, const void* in, void* out, uint64_t count,
                         nezha_dtype dtype, int root, const nezha_op_options* options,
                         nezha_work_t* work) {
  return operation(comm, options, work, [&](Communicator& to, const CallOptions& call, Work* handle) {
    return to.scatter(in, out, count, to_dtype(dtype), root, call, handle);
  });
}

nezha_code nezha_all_to_all(nezha_comm_t comm, const void* in, void* out, uint64_t count,
                            nezha_dtype dtype, const nezha_op_options* options,
                            nezha_work_t* work) {
  return operation(comm, options, work, [&](Communicator& to, const CallOptions& call, Work* handle) {
    return to.all_to_all(in, out, count, to_dtype(dtype), call, handle);
  });
}

nezha_code nezha_all_to_all_v(nezha_comm_t comm, const void* in, const uint64_t* send_counts,
                              void* out, const uint64_t* receive_counts, nezha_dtype dtype,
                              const nezha_op_options* options, nezha_work_t* work) {
  return operation(comm, options, work, [&](Communicator& to, const CallOptions& call, Work* handle) {
    return to.all_to_all_v(in, send_counts, out, receive_counts, to_dtype(dtype), call, handle);
  });
}

nezha_code nezha_barrier(nezha_comm_t comm, const nezha_op_options* options, nezha_work_t* work) {
  return operation(comm, options, work, [&](Communicator& to, const CallOptions& call, Work* handle) {
    return to.barrier(call, handle);
  });
}

nezha_code nezha_send(nezha_comm_t comm, const void* buffer, uint64_t count, nezha_dtype dtype,
                      int destination, uint32_t tag, const nezha_op_options* options,
                      nezha_work_t* work) {
  return operation(comm, options, work, [&](Communicator& to, const CallOptions& call, Work* handle) {
    return to.send(buffer, count, to_dtype(dtype), destination, tag, call, handle);
  });
}

nezha_code nezha_recv(nezha_comm_t comm, void* buffer, uint64_t count, nezha_dtype dtype,
                      int source, uint32_t tag, const nezha_op_options* options,
                      nezha_work_t* work) {
  return operation(comm, options, work, [&](Communicator& to, const CallOptions& call, Work* handle) {
    return to.receive(buffer, count, to_dtype(dtype), source, tag, call, handle);
  });
}

nezha_code nezha_probe(nezha_comm_t comm, int source, uint32_t tag, int* found, nezha_message* message) {
  return guarded([&]() -> Status {
    NEZHA_RETURN_IF_ERROR(check(comm));
    if (found == nullptr || message == nullptr) {
      return error(Code::invalid_argument, "nezha_probe needs pointers for both results");
    }
    nezha_message answer = NEZHA_MESSAGE_INIT;
    NEZHA_RETURN_IF_ERROR(read_sized(message, &answer));
    auto waiting = comm->communicator->probe(source, tag);
    if (!waiting) return waiting.status();
    *found = waiting->has_value() ? 1 : 0;
    if (!waiting->has_value()) return Status::ok();
    const nezha::engine::WaitingMessage& there = **waiting;
    answer = {answer.struct_size, there.source, nezha::wire::tag_of(there.op), there.op.count,
              static_cast<nezha_dtype>(there.op.dtype)};
    std::memcpy(message, &answer, std::min(answer.struct_size, sizeof(answer)));
    return Status::ok();
  });
}

}  // extern "C"
