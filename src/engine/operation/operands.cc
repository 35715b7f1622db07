#include "engine/operation/operands.h"

#include <array>
#include <functional>
#include <utility>

#include "base/copy.h"
#include "engine/group/failures.h"
#include "engine/group/group.h"
#include "engine/operation/constants.h"
#include "reduce/reduce.h"

namespace nezha::engine {

using schedule::Geometry;
using schedule::Range;
using schedule::Side;
using schedule::Step;
using schedule::StepKind;

namespace {

bool overlap(const std::byte* a, const std::byte* b, uint64_t bytes) {
  const std::less<const std::byte*> before;  // an order of all pointers, of whatever arrays
  return before(a, b + bytes) && before(b, a + bytes);
}

// The factor of this rank's input, before it is added.
double factor_of(const OpRequest& request, uint64_t ranks) {
  if (request.op == ReduceOp::premul_sum) return request.factor;
  return request.op == ReduceOp::avg ? reduce::average_weight(ranks) : 1.0;
}

void set_begins(std::vector<uint64_t>& begins, std::span<const uint64_t> counts, uint64_t total,
                size_t world_size) {
  begins.resize(world_size + 1);
  begins[0] = 0;
  for (size_t i = 0; i < world_size; ++i) {
    begins[i + 1] = begins[i] + (counts.empty() ? total / world_size : counts[i]);
  }
}

}  // namespace

void Operands::prepare(const OpRequest& request, const schedule::Plan& plan,
                       const schedule::Schedule& schedule) {
  in_ = static_cast<const std::byte*>(request.in);
  out_ = static_cast<std::byte*>(request.out);
  dtype_ = request.dtype;
  op_ = request.op;
  element_bytes_ = dtype_size(request.dtype);
  factor_ = factor_of(request, static_cast<uint64_t>(group_.ranks()));
  landed_ = request.landed;
  replaces_input_ = in_ != nullptr && overlap(in_, out_, request.count * element_bytes_);
  map_ = {request.count, schedule.slices(), plan.chunks_per_slice, plan.geometry,
          plan.chunk_elements, &blocks_, static_cast<uint32_t>(group_.rank)};
  set_blocks(request);
}

void Operands::open(Cursor& at) const {
  for (const Side side : {Side::input, Side::output, Side::workspace}) {
    at.ranges[static_cast<size_t>(side)] = map_.chunk(at.chunk, side);
  }
  at.steps.assign(at.program->steps.size(), StepSlot());
  for (size_t i = 0; i < at.steps.size(); ++i) {
    at.steps[i].range = find_range(at, at.program->steps[i]);
    if (map_.is_absent(at.chunk, at.steps[i].range)) at.steps[i].state = StepState::done;
  }
}

void Operands::set_blocks(const OpRequest& request) {
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

// ---------------------------------------------------------------------------------- memory

Workspace* Operands::make_workspace(uint32_t chunk) {
  const size_t bytes = map_.chunk(chunk, Side::workspace).size() * element_bytes_;
  Workspace* const made = Workspace::make(pool_, bytes);
  if (made == nullptr) failures_.fail_exhausted(group_, bytes);
  return made;
}

std::byte* Operands::workspace_at(Cursor& at, Range range) {
  if (at.workspace == nullptr) at.workspace = make_workspace(at.chunk);
  if (at.workspace == nullptr) return nullptr;
  return at.workspace->data() + (range.begin - at.range(Side::workspace).begin) * element_bytes_;
}

std::byte* Operands::target_of(Cursor& at, const Step& step) {
  const Side side = written_side(step);
  const Range range = !step.from_input ? range_of(at, step)
                                       : map_.parts(at.range(side), at.program->parts, step.part_begin,
                                                    step.part_end, side);
  return step.in_workspace ? workspace_at(at, range) : output_at(range);
}

const std::byte* Operands::source_of(Cursor& at, const Step& step) {
  const Range range = range_of(at, step);
  if (step.from_input) return input_at(range);
  return step.in_workspace ? workspace_at(at, range) : output_at(range);
}

void Operands::take_input(std::byte* to, const std::byte* from, uint64_t count) {
  if (scales()) {
    reduce::scale(to, from, count, dtype_, factor_);
  } else if (to != from) {
    copy_bytes(to, from, count * element_bytes_);
  }
}

// ----------------------------------------------------------------------------------- steps

void Operands::run_local(Cursor& at, const Step& step) {
  const Range range = range_of(at, step);
  if (step.from_input) {
    std::byte* target = target_of(at, step);
    if (target != nullptr || range.size() == 0) take_input(target, input_at(range), range.size());
    return;
  }
  if (range.size() > 0) keep(at, step);
}

void Operands::keep(Cursor& at, const Step& step) {
  const auto parts = [&](Side side) {
    return map_.parts(at.range(side), at.program->parts, step.part_begin, step.part_end, side);
  };
  const Range to = parts(Side::output);
  const std::byte* kept = workspace_at(at, parts(Side::workspace));
  if (kept != nullptr) copy_bytes(output_at(to), kept, to.size() * element_bytes_);
}

void Operands::replace(Cursor& at, const Step& step, const std::byte* incoming) {
  const size_t bytes = bytes_of(at, step);
  std::byte* target = bytes == 0 ? nullptr : target_of(at, step);
  if (target == nullptr) return;
  if (incoming != nullptr) copy_bytes(target, incoming, bytes);
  if (landed_ != nullptr && !step.in_workspace) take_note(range_of(at, step));
}

// Chunks end nearly in their order, so there are few ranges.
void Operands::take_note(Range range) {
  for (Range& each : *landed_) {
    if (each.end == range.begin) {
      each.end = range.end;
      return;
    }
  }
  landed_->push_back(range);
}

void Operands::reduce_into(Cursor& at, const Step& step, const std::byte* incoming) {
  const Range range = range_of(at, step);
  // The payloads that were kept of the steps before this one (Execution::apply) are added first.
  const auto end = static_cast<size_t>(&step - at.program->steps.data());
  const auto kept = [&](size_t index) {
    return at.steps[index].state == StepState::done && at.steps[index].scratch.data != nullptr;
  };
  size_t next = end;
  while (next > 0 && kept(next - 1)) --next;
  std::byte* target = range.size() == 0 ? nullptr : target_of(at, step);
  std::array<const void*, kAddendsMax> operands;
  operands[0] = target;
  if (target != nullptr && step.from_input) {
    operands[0] = input_at(range);
    if (scales()) {
      take_input(target, input_at(range), range.size());
      operands[0] = target;
    }
  }
  size_t count = 1;
  const auto add_up = [&](bool completes) {
    const std::span<const void* const> all(operands.data(), count);
    if (target != nullptr && completes && op_ == ReduceOp::avg) {
      reduce::average(target, all, range.size(), dtype_, 1, factor_ * group_.ranks());
    } else if (target != nullptr) {
      reduce::reduce_many(target, all, range.size(), dtype_, op_);
    }
    operands[0] = target;
    count = 1;
  };
  for (; next < end; ++next) {
    operands[count++] = at.steps[next].scratch.data;
    if (count == kAddendsMax) add_up(false);
  }
  operands[count++] = incoming;
  if (step.peer_first) std::swap(operands[0], operands[1]);
  add_up(step.final);
  for (; next > 0 && kept(next - 1); --next) {
    pool_.give(at.steps[next - 1].scratch);
    at.steps[next - 1].scratch = Buffer();
  }
}

bool Operands::copy_into(transport::WorkRequest& request, bool scaled) {
  const uint32_t length = request.header.length;
  const Buffer buffer = pool_.allocate(length);
  if (buffer.data == nullptr) return false;
  if (scaled) {
    take_input(buffer.data, request.data, length / element_bytes_);
  } else {
    copy_bytes(buffer.data, request.data, length);
  }
  request.copy = buffer.data;
  request.copy_class = buffer.size_class;
  request.data = buffer.data;
  return true;
}

}  // namespace nezha::engine
