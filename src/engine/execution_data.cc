// Execution: which bytes a step reads and writes, and how they leave.
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"
#include "engine/credit_accounts.h"
#include "engine/execution.h"
#include "engine/failures.h"
#include "engine/group.h"
#include "engine/options.h"
#include "engine/transfers.h"
#include "reduce/reduce.h"

namespace nezha::engine {

using schedule::Geometry;
using schedule::Range;
using schedule::Side;
using schedule::Step;
using schedule::StepKind;

namespace {

// Of one pass of additions.
constexpr size_t kOperandsMax = 64;

void set_begins(std::vector<uint64_t>& begins, std::span<const uint64_t> counts, uint64_t total,
                size_t world_size) {
  begins.resize(world_size + 1);
  begins[0] = 0;
  for (size_t i = 0; i < world_size; ++i) {
    begins[i + 1] = begins[i] + (counts.empty() ? total / world_size : counts[i]);
  }
}

}  // namespace

void Execution::set_blocks(const OpRequest& request) {
  in_origin_ = out_origin_ = 0;
  if (map_.geometry == Geometry::even) return;
  const auto world_size = static_cast<size_t>(group_.ranks());
  set_begins(blocks_.input_begin, request.input_counts, request.count, world_size);
  set_begins(blocks_.output_begin, request.output_counts, request.count, world_size);
  if (group_.is_node()) return;  // it has no buffers
  const auto rank = static_cast<size_t>(group_.rank);
  switch (request.collective) {
    case Collective::all_gather:
    case Collective::gather:
      in_origin_ = blocks_.input_begin[rank];
      break;
    case Collective::reduce_scatter:
    case Collective::scatter:
      out_origin_ = blocks_.output_begin[rank];
      break;
    default:
      break;  // whole vectors
  }
}

wire::OpDescriptor Execution::descriptor_from(int member) const {
  wire::OpDescriptor descriptor = descriptor_;
  if (local_counts_) descriptor.count = blocks_.output(static_cast<size_t>(member)).size();
  return descriptor;
}

uint64_t Execution::pair_load() const {
  constexpr uint64_t kHeaders = 8 * 1024;
  return receives_ ? 2 * bytes() + kHeaders : std::numeric_limits<uint64_t>::max();
}

// ---------------------------------------------------------------------------------- memory

std::byte* Execution::workspace_at(Cursor& at, Range range) {
  if (at.workspace == nullptr) {
    const size_t bytes = at.output.size() * element_bytes_;
    at.workspace = Workspace::make(parts_.pool, bytes);
    if (at.workspace == nullptr) {
      parts_.failures.fail_exhausted(group_, bytes);
      return nullptr;
    }
  }
  return at.workspace->data() + (range.begin - at.output.begin) * element_bytes_;
}

std::byte* Execution::target_of(Cursor& at, const Step& step) {
  const Range range = !step.from_input ? range_of(at, step)
                                       : map_.parts(at.output, at.program->parts, step.part_begin,
                                                    step.part_end, Side::output);
  return step.in_workspace ? workspace_at(at, range) : output_at(range);
}

const std::byte* Execution::source_of(Cursor& at, const Step& step) {
  const Range range = range_of(at, step);
  if (step.from_input) return input_at(range);
  return step.in_workspace ? workspace_at(at, range) : output_at(range);
}

void Execution::take_input(std::byte* to, const std::byte* from, uint64_t count) {
  if (descriptor_.op == ReduceOp::premul_sum) {
    reduce::scale(to, from, count, descriptor_.dtype, factor_);
  } else if (to != from && count > 0) {
    std::memcpy(to, from, count * element_bytes_);
  }
}

// ----------------------------------------------------------------------------------- steps

void Execution::run_local(Cursor& at, const Step& step) {
  const Range range = range_of(at, step);
  if (step.from_input) {
    std::byte* target = target_of(at, step);
    if (target != nullptr || range.size() == 0) take_input(target, input_at(range), range.size());
    return;
  }
  const std::byte* kept = workspace_at(at, range);
  if (kept != nullptr && range.size() > 0) {
    std::memcpy(output_at(range), kept, range.size() * element_bytes_);
  }
}

void Execution::replace(Cursor& at, const Step& step, const std::byte* incoming) {
  const size_t bytes = bytes_of(at, step);
  std::byte* target = bytes == 0 ? nullptr : target_of(at, step);
  if (target == nullptr) return;
  if (incoming != nullptr) std::memcpy(target, incoming, bytes);
  if (landed_ != nullptr && !step.in_workspace) take_note(range_of(at, step));
}

// Chunks end nearly in their order, so there are few of them.
void Execution::take_note(Range range) {
  for (Range& each : *landed_) {
    if (each.end == range.begin) {
      each.end = range.end;
      return;
    }
  }
  landed_->push_back(range);
}

void Execution::reduce_into(Cursor& at, const Step& step, const std::byte* incoming) {
  const Range range = range_of(at, step);
  // What was kept of the steps before this one (Execution::apply) comes first.
  const auto end = static_cast<size_t>(&step - at.program->steps.data());
  const auto kept = [&](size_t index) {
    return at.steps[index].state == StepState::done && at.steps[index].scratch.data != nullptr;
  };
  size_t next = end;
  while (next > 0 && kept(next - 1)) --next;
  std::byte* target = range.size() == 0 ? nullptr : target_of(at, step);
  std::array<const void*, kOperandsMax> operands = {target};
  if (target != nullptr && step.from_input) {
    operands[0] = input_at(range);
    if (descriptor_.op == ReduceOp::premul_sum) {
      take_input(target, input_at(range), range.size());
      operands[0] = target;
    }
  }
  size_t count = 1;
  const auto add_up = [&] {
    if (target != nullptr) {
      reduce::reduce_many(target, {operands.data(), count}, range.size(), descriptor_.dtype,
                          descriptor_.op);
    }
    operands[0] = target;
    count = 1;
  };
  for (; next < end; ++next) {
    operands[count++] = at.steps[next].scratch.data;
    if (count == kOperandsMax) add_up();
  }
  operands[count++] = incoming;
  if (step.peer_first) std::swap(operands[0], operands[1]);
  add_up();
  for (; next > 0 && kept(next - 1); --next) {
    parts_.pool.give(at.steps[next - 1].scratch);
    at.steps[next - 1].scratch = Buffer();
  }
  if (target != nullptr && step.final && descriptor_.op == ReduceOp::avg) {
    reduce::divide(target, range.size(), descriptor_.dtype,
                   static_cast<uint64_t>(group_.ranks()));
  }
}

// The request sends from a private copy; false when there is no memory for it.
bool Execution::copy_into(transport::WorkRequest& request, bool scaled) {
  const uint32_t length = request.header.length;
  const Buffer buffer = parts_.pool.take(length);
  if (buffer.data == nullptr) return false;
  if (scaled) {
    take_input(buffer.data, request.data, length / element_bytes_);
  } else {
    std::memcpy(buffer.data, request.data, length);
  }
  request.copy = buffer.data;
  request.copy_class = buffer.size_class;
  request.data = buffer.data;
  return true;
}

void Execution::post(Cursor& at, const Step& step) {
  const Range range = range_of(at, step);
  const auto length = static_cast<uint32_t>(range.size() * element_bytes_);
  const std::byte* source = source_of(at, step);
  if (!group_.failed.is_ok()) return;
  transport::WorkRequest* request = parts_.transfers.take();
  if (request == nullptr) return parts_.failures.fail_exhausted(group_, sizeof(*request));
  wire::FrameHeader& header = request->header;
  header = wire::FrameHeader();
  header.comm = group_.comm;
  header.op_seq = op_seq_;
  header.chunk = at.chunk;
  header.stage = step.stage;
  header.slot = step.slot;
  header.length = length;
  header.op = descriptor_;
  if (local_counts_) header.op.count = blocks_.input(static_cast<size_t>(step.peer)).size();
  request->data = source;
  request->copy = nullptr;
  request->shared = nullptr;
  const bool scaled = step.from_input && descriptor_.op == ReduceOp::premul_sum;
  const bool is_short = length <= parts_.options.inline_bytes;
  const bool copy = step.copy_source || scaled || is_short;
  if (copy && length > 0 && !copy_into(*request, scaled)) {
    parts_.transfers.give(*request);
    return parts_.failures.fail_exhausted(group_, length);
  }
  if (!copy && !step.from_input && step.in_workspace) request->shared = at.workspace->share();
  // Long scaled copies are waited for, too: what they weigh on their rail is accounted to us.
  const bool awaited = !copy || (scaled && !is_short);
  request->owner = awaited ? static_cast<Activity*>(this) : nullptr;
  if (awaited) ++unreleased_;
  // Someone waits for the answer: our caller for its memory, or a sender that receives nothing.
  if (awaited || !receives_) header.flags |= wire::kFlagAckNow;
  sent_to_[static_cast<size_t>(step.peer)] = true;
  parts_.credit.post(group_, step.peer, *request);
}

}  // namespace nezha::engine
