// Communicator: the collectives, their arguments, and how they start.
#include "context/argument_checks.h"
#include "context/communicator.h"
#include "schedule/catalog.h"

namespace nezha::context {

using progress::Loop;

namespace {

constexpr const char* kSameOrSeparate = "pass the same pointer twice, or separate buffers";
constexpr const char* kOwnBlock =
    "pass separate buffers, or this rank's own block where it belongs";
constexpr const char* kSeparate = "pass separate buffers";

const void* at(const void* data, uint64_t elements, Dtype dtype) {
  return static_cast<const char*>(data) + elements * dtype_size(dtype);
}

Status check_reduction(const char* call, Dtype dtype, ReduceOp op) {
  NEZHA_RETURN_IF_ERROR(check_dtype(call, dtype));
  return check_op(call, dtype, op);
}

Status check_buffers(const char* call, const Argument& input, const Argument& output, Dtype dtype,
                     bool is_in_place, const char* remedy) {
  NEZHA_RETURN_IF_ERROR(check_memory(call, input, dtype));
  NEZHA_RETURN_IF_ERROR(check_memory(call, output, dtype));
  return check_overlap(call, input, output, dtype, is_in_place, remedy);
}

engine::OpRequest request_for(Collective collective, const void* in, void* out, uint64_t count,
                              Dtype dtype) {
  engine::OpRequest request;
  request.collective = collective;
  request.in = in;
  request.out = out;
  request.count = count;
  request.dtype = dtype;
  return request;
}

Status check_counts(const char* call, const char* name, const uint64_t* counts) {
  if (counts != nullptr) return Status::ok();
  return error(Code::invalid_argument, "%s: %s is null; pass one number for each rank", call, name);
}

}  // namespace

uint64_t Communicator::own_begin(uint64_t total, const uint64_t* counts) const {
  if (counts == nullptr) return total / static_cast<uint64_t>(world_size_) * static_cast<uint64_t>(rank_);
  uint64_t begin = 0;
  for (int rank = 0; rank < rank_; ++rank) begin += counts[rank];
  return begin;
}

uint64_t Communicator::own_count(uint64_t total, const uint64_t* counts) const {
  return counts == nullptr ? total / static_cast<uint64_t>(world_size_) : counts[rank_];
}

// ------------------------------------------------------------------------------ reductions

Status Communicator::all_reduce(const void* in, void* out, uint64_t count, Dtype dtype,
                                ReduceOp op, const CallOptions& options, engine::Work* work) {
  constexpr const char* kCall = "all_reduce";
  const Argument input{"in", in, count};
  const Argument output{"out", out, count};
  NEZHA_RETURN_IF_ERROR(check_reduction(kCall, dtype, op));
  NEZHA_RETURN_IF_ERROR(check_buffers(kCall, input, output, dtype, in == out, kSameOrSeparate));
  engine::OpRequest request = request_for(Collective::all_reduce, in, out, count, dtype);
  request.op = op;
  request.factor = options.factor;
  return issue(request, options, work);
}

Status Communicator::reduce(const void* in, void* out, uint64_t count, Dtype dtype, ReduceOp op,
                            int root, const CallOptions& options, engine::Work* work) {
  constexpr const char* kCall = "reduce";
  const Argument input{"in", in, count};
  const Argument output{"out", out, count};
  NEZHA_RETURN_IF_ERROR(check_reduction(kCall, dtype, op));
  NEZHA_RETURN_IF_ERROR(check_rank(kCall, "root", root, world_size_));
  NEZHA_RETURN_IF_ERROR(check_memory(kCall, input, dtype));
  if (rank_ == root) {
    NEZHA_RETURN_IF_ERROR(check_memory(kCall, output, dtype));
    NEZHA_RETURN_IF_ERROR(check_overlap(kCall, input, output, dtype, in == out, kSameOrSeparate));
  }
  engine::OpRequest request =
      request_for(Collective::reduce, in, rank_ == root ? out : nullptr, count, dtype);
  request.op = op;
  request.factor = options.factor;
  request.root = root;
  return issue(request, options, work);
}

Status Communicator::reduce_scatter(const void* in, void* out, uint64_t count, Dtype dtype,
                                    ReduceOp op, const CallOptions& options, engine::Work* work) {
  constexpr const char* kCall = "reduce_scatter";
  auto total = total_of(kCall, count, world_size_);
  if (!total) return total.status();
  return reduce_scatter_blocks(kCall, in, out, *total, nullptr, dtype, op, options, work);
}

Status Communicator::reduce_scatter_v(const void* in, void* out, const uint64_t* counts,
                                      Dtype dtype, ReduceOp op, const CallOptions& options,
                                      engine::Work* work) {
  constexpr const char* kCall = "reduce_scatter_v";
  NEZHA_RETURN_IF_ERROR(check_counts(kCall, "counts", counts));
  auto total = total_of(kCall, "counts", {counts, static_cast<size_t>(world_size_)});
  if (!total) return total.status();
  return reduce_scatter_blocks(kCall, in, out, *total, counts, dtype, op, options, work);
}

Status Communicator::reduce_scatter_blocks(const char* call, const void* in, void* out,
                                           uint64_t total, const uint64_t* counts, Dtype dtype,
                                           ReduceOp op, const CallOptions& options,
                                           engine::Work* work) {
  const Argument input{"in", in, total};
  const Argument output{"out", out, own_count(total, counts)};
  NEZHA_RETURN_IF_ERROR(check_reduction(call, dtype, op));
  const bool is_in_place = out == at(in, own_begin(total, counts), dtype);
  NEZHA_RETURN_IF_ERROR(check_buffers(call, input, output, dtype, is_in_place, kOwnBlock));
  engine::OpRequest request = request_for(Collective::reduce_scatter, in, out, total, dtype);
  if (counts != nullptr) {
    request.input_counts = request.output_counts = {counts, static_cast<size_t>(world_size_)};
  }
  request.op = op;
  request.factor = options.factor;
  return issue(request, options, work);
}

// ------------------------------------------------------------------------ from one, to one

Status Communicator::broadcast(void* buffer, uint64_t count, Dtype dtype, int root,
                               const CallOptions& options, engine::Work* work) {
  constexpr const char* kCall = "broadcast";
  NEZHA_RETURN_IF_ERROR(check_dtype(kCall, dtype));
  NEZHA_RETURN_IF_ERROR(check_rank(kCall, "root", root, world_size_));
  NEZHA_RETURN_IF_ERROR(check_memory(kCall, {"buffer", buffer, count}, dtype));
  engine::OpRequest request = request_for(Collective::broadcast, buffer, buffer, count, dtype);
  request.root = root;
  return issue(request, options, work);
}

Status Communicator::gather(const void* in, void* out, uint64_t count, Dtype dtype, int root,
                            const CallOptions& options, engine::Work* work) {
  constexpr const char* kCall = "gather";
  NEZHA_RETURN_IF_ERROR(check_dtype(kCall, dtype));
  NEZHA_RETURN_IF_ERROR(check_rank(kCall, "root", root, world_size_));
  auto total = total_of(kCall, count, world_size_);
  if (!total) return total.status();
  const Argument input{"in", in, count};
  const Argument output{"out", out, *total};
  NEZHA_RETURN_IF_ERROR(check_memory(kCall, input, dtype));
  if (rank_ == root) {
    NEZHA_RETURN_IF_ERROR(check_memory(kCall, output, dtype));
    const bool is_in_place = in == at(out, own_begin(*total, nullptr), dtype);
    NEZHA_RETURN_IF_ERROR(check_overlap(kCall, input, output, dtype, is_in_place, kOwnBlock));
  }
  engine::OpRequest request =
      request_for(Collective::gather, in, rank_ == root ? out : nullptr, *total, dtype);
  request.root = root;
  return issue(request, options, work);
}

Status Communicator::scatter(const void* in, void* out, uint64_t count, Dtype dtype, int root,
                             const CallOptions& options, engine::Work* work) {
  constexpr const char* kCall = "scatter";
  NEZHA_RETURN_IF_ERROR(check_dtype(kCall, dtype));
  NEZHA_RETURN_IF_ERROR(check_rank(kCall, "root", root, world_size_));
  auto total = total_of(kCall, count, world_size_);
  if (!total) return total.status();
  const Argument input{"in", in, *total};
  const Argument output{"out", out, count};
  NEZHA_RETURN_IF_ERROR(check_memory(kCall, output, dtype));
  if (rank_ == root) {
    NEZHA_RETURN_IF_ERROR(check_memory(kCall, input, dtype));
    const bool is_in_place = out == at(in, own_begin(*total, nullptr), dtype);
    NEZHA_RETURN_IF_ERROR(check_overlap(kCall, input, output, dtype, is_in_place, kOwnBlock));
  }
  engine::OpRequest request =
      request_for(Collective::scatter, rank_ == root ? in : nullptr, out, *total, dtype);
  request.root = root;
  return issue(request, options, work);
}

// ------------------------------------------------------------------------- from all, to all

Status Communicator::all_gather(const void* in, void* out, uint64_t count, Dtype dtype,
                                const CallOptions& options, engine::Work* work) {
  constexpr const char* kCall = "all_gather";
  auto total = total_of(kCall, count, world_size_);
  if (!total) return total.status();
  return all_gather_blocks(kCall, in, out, *total, nullptr, dtype, options, work);
}

Status Communicator::all_gather_v(const void* in, void* out, const uint64_t* counts, Dtype dtype,
                                  const CallOptions& options, engine::Work* work) {
  constexpr const char* kCall = "all_gather_v";
  NEZHA_RETURN_IF_ERROR(check_counts(kCall, "counts", counts));
  auto total = total_of(kCall, "counts", {counts, static_cast<size_t>(world_size_)});
  if (!total) return total.status();
  return all_gather_blocks(kCall, in, out, *total, counts, dtype, options, work);
}

Status Communicator::all_gather_blocks(const char* call, const void* in, void* out, uint64_t total,
                                       const uint64_t* counts, Dtype dtype,
                                       const CallOptions& options, engine::Work* work) {
  const Argument input{"in", in, own_count(total, counts)};
  const Argument output{"out", out, total};
  NEZHA_RETURN_IF_ERROR(check_dtype(call, dtype));
  const bool is_in_place = in == at(out, own_begin(total, counts), dtype);
  NEZHA_RETURN_IF_ERROR(check_buffers(call, input, output, dtype, is_in_place, kOwnBlock));
  engine::OpRequest request = request_for(Collective::all_gather, in, out, total, dtype);
  if (counts != nullptr) {
    request.input_counts = request.output_counts = {counts, static_cast<size_t>(world_size_)};
  }
  return issue(request, options, work);
}

Status Communicator::all_to_all(const void* in, void* out, uint64_t count, Dtype dtype,
                                const CallOptions& options, engine::Work* work) {
  constexpr const char* kCall = "all_to_all";
  NEZHA_RETURN_IF_ERROR(check_dtype(kCall, dtype));
  auto total = total_of(kCall, count, world_size_);
  if (!total) return total.status();
  const Argument input{"in", in, *total};
  const Argument output{"out", out, *total};
  NEZHA_RETURN_IF_ERROR(check_buffers(kCall, input, output, dtype, false, kSeparate));
  engine::OpRequest request = request_for(Collective::all_to_all, in, out, *total, dtype);
  return issue(request, options, work);
}

Status Communicator::all_to_all_v(const void* in, const uint64_t* send_counts, void* out,
                                  const uint64_t* receive_counts, Dtype dtype,
                                  const CallOptions& options, engine::Work* work) {
  constexpr const char* kCall = "all_to_all_v";
  const auto ranks = static_cast<size_t>(world_size_);
  NEZHA_RETURN_IF_ERROR(check_dtype(kCall, dtype));
  NEZHA_RETURN_IF_ERROR(check_counts(kCall, "send_counts", send_counts));
  NEZHA_RETURN_IF_ERROR(check_counts(kCall, "receive_counts", receive_counts));
  auto sent = total_of(kCall, "send_counts", {send_counts, ranks});
  if (!sent) return sent.status();
  auto received = total_of(kCall, "receive_counts", {receive_counts, ranks});
  if (!received) return received.status();
  const Argument input{"in", in, *sent};
  const Argument output{"out", out, *received};
  NEZHA_RETURN_IF_ERROR(check_buffers(kCall, input, output, dtype, false, kSeparate));
  // To itself a rank sends, too, and nobody else can notice.
  if (send_counts[rank_] != receive_counts[rank_]) {
    return error(Code::invalid_argument, "%s: rank %d sends %llu elements to itself but receives %llu; "
                 "send_counts[%d] and receive_counts[%d] must be equal", kCall, rank_,
                 static_cast<unsigned long long>(send_counts[rank_]),
                 static_cast<unsigned long long>(receive_counts[rank_]), rank_, rank_);
  }
  engine::OpRequest request = request_for(Collective::all_to_all_v, in, out, *sent, dtype);
  request.input_counts = {send_counts, ranks};
  request.output_counts = {receive_counts, ranks};
  return issue(request, options, work);
}

Status Communicator::barrier(const CallOptions& options, engine::Work* work) {
  engine::OpRequest request;
  request.collective = Collective::barrier;
  return issue(request, options, work);
}

}  // namespace nezha::context
