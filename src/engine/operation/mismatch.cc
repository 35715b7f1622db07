#include "engine/operation/mismatch.h"

#include <cinttypes>
#include <string>

namespace nezha::engine {
namespace {

struct Difference {
  const char* field = "description";
  std::string mine;
  std::string other;
};

// The first field that differs, most telling first: a different collective explains everything else.
Difference difference(const wire::OpDescriptor& mine, const wire::OpDescriptor& other) {
  auto text = [](auto value) { return std::string(name_of(value)); };
  if (name_of(mine) != name_of(other)) return {"collective", text(mine), text(other)};
  if (mine.root != other.root) {
    return {"root", std::to_string(mine.root), std::to_string(other.root)};
  }
  if (mine.dtype != other.dtype) return {"dtype", text(mine.dtype), text(other.dtype)};
  if (mine.op != other.op) return {"op", text(mine.op), text(other.op)};
  if (mine.count != other.count) {
    return {"count", std::to_string(mine.count), std::to_string(other.count)};
  }
  if (mine.algorithm != other.algorithm) {
    return {"algorithm", text(mine.algorithm), text(other.algorithm)};
  }
  return {"plan", std::to_string(mine.plan), std::to_string(other.plan)};
}

}  // namespace

wire::OpDescriptor comparable(const wire::OpDescriptor& mine, wire::OpDescriptor other) {
  if (mine.collective == Collective::all_to_all_v && other.collective == mine.collective) {
    other.count = mine.count;
    other.plan = mine.plan;
  }
  return other;
}

Status describe_mismatch(uint64_t comm, uint64_t op_seq, const RankedDescriptor& mine,
                         const RankedDescriptor& other) {
  const Difference found = difference(mine.op, other.op);
  ErrorDetails details;
  details.ranks = {mine.rank, other.rank};
  details.communicator = comm;
  details.operation = name_of(mine.op);
  details.number = static_cast<int64_t>(op_seq);
  details.bytes = static_cast<int64_t>(mine.op.count * dtype_size(mine.op.dtype));
  return error(Code::mismatch,
               "operation #%llu of communicator %" PRIu64 ": %s is %s on rank %d but %s on rank %d "
               "(rank %d "
               "calls %s of %llu x %s, rank %d calls %s of %llu x %s); every rank must make the same "
               "calls in the same order",
               static_cast<unsigned long long>(op_seq), comm, found.field, found.mine.c_str(),
               mine.rank, found.other.c_str(), other.rank, mine.rank,
               std::string(name_of(mine.op)).c_str(),
               static_cast<unsigned long long>(mine.op.count),
               std::string(name_of(mine.op.dtype)).c_str(), other.rank,
               std::string(name_of(other.op)).c_str(),
               static_cast<unsigned long long>(other.op.count),
               std::string(name_of(other.op.dtype)).c_str())
      .with_peer(other.rank)
      .with(std::move(details));
}

}  // namespace nezha::engine
