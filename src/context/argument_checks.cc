#include "context/argument_checks.h"

#include <string>

namespace nezha::context {
namespace {

constexpr uint64_t kBytesMax = (uint64_t{1} << 48) - 1;  // as many elements fit into a frame

unsigned long long printable(uint64_t value) { return value; }

}  // namespace

Status check_dtype(const char* call, Dtype dtype) {
  if (dtype_size(dtype) > 0) return Status::ok();
  return error(Code::invalid_argument, "%s: dtype %d does not exist", call,
               static_cast<int>(dtype));
}

Status check_op(const char* call, Dtype dtype, ReduceOp op) {
  if (static_cast<size_t>(op) >= kReduceOpCount) {
    return error(Code::invalid_argument, "%s: op %d does not exist", call, static_cast<int>(op));
  }
  if (reduce_supported(dtype, op)) return Status::ok();
  const char* advice = op == ReduceOp::avg
      ? "its sums can wrap; use sum in a dtype that holds the sum, and divide, or a floating-point dtype"
      : "use an integer dtype";
  return error(Code::unsupported, "%s: %s is not defined for %s; %s", call,
               std::string(name_of(op)).c_str(), std::string(name_of(dtype)).c_str(), advice);
}

Status check_rank(const char* call, const char* what, int rank, int world_size) {
  if (rank >= 0 && rank < world_size) return Status::ok();
  return error(Code::invalid_argument, "%s: %s %d is not in 0..%d", call, what, rank,
               world_size - 1);
}

Status check_memory(const char* call, const Argument& argument, Dtype dtype) {
  if (argument.count > kBytesMax / dtype_size(dtype)) {
    return error(Code::invalid_argument, "%s: %s of %llu elements is more than any memory holds",
                 call, argument.name, printable(argument.count));
  }
  if (argument.data != nullptr || argument.count == 0) return Status::ok();
  return error(Code::invalid_argument, "%s: %s is null but has %llu elements; pass its memory, or "
               "count 0", call, argument.name, printable(argument.count));
}

Status check_overlap(const char* call, const Argument& in, const Argument& out, Dtype dtype,
                     bool is_in_place, const char* advice) {
  const auto* first = static_cast<const char*>(in.data);
  const auto* second = static_cast<const char*>(out.data);
  const uint64_t first_bytes = in.count * dtype_size(dtype);
  const uint64_t second_bytes = out.count * dtype_size(dtype);
  if (is_in_place || first_bytes == 0 || second_bytes == 0) return Status::ok();
  if (first >= second + second_bytes || second >= first + first_bytes) return Status::ok();
  return error(Code::invalid_argument, "%s: %s and %s overlap; %s", call, in.name, out.name, advice);
}

Result<uint64_t> total_of(const char* call, uint64_t count, int world_size) {
  uint64_t total = 0;
  if (__builtin_mul_overflow(count, static_cast<uint64_t>(world_size), &total)) {
    return error(Code::invalid_argument, "%s: %d blocks of %llu elements are more than any memory "
                 "holds", call, world_size, printable(count));
  }
  return total;
}

Result<uint64_t> total_of(const char* call, const char* name, std::span<const uint64_t> counts) {
  uint64_t total = 0;
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    if (!__builtin_add_overflow(total, counts[rank], &total)) continue;
    return error(Code::invalid_argument, "%s: the %s up to rank %zu add up to more than any memory "
                 "holds", call, name, rank);
  }
  return total;
}

}  // namespace nezha::context
