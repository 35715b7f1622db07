#include "proofs/rehearsal_memory.h"

#include <algorithm>

namespace nezha::schedule {

RehearsalMemory::RehearsalMemory(std::span<const SliceLinks> slices, const Contract& contract,
                                 uint32_t chunk_count)
    : slices_(slices), contract_(contract), chunk_count_(chunk_count),
      memories_(slices[0].ranks.size() * chunk_count), expected_(slices.size()) {
  for (int rank = 0; rank < slices[0].world_size(); ++rank) {
    for (uint32_t chunk = 0; chunk < chunk_count; ++chunk) fill(rank, chunk);
  }
}

void RehearsalMemory::fill(int rank, uint32_t chunk) {
  const auto slice = static_cast<uint32_t>(chunk % slices_.size());
  const uint32_t parts = slices_[slice].parts();
  Memories& memories = at(rank, chunk);
  memories.output.assign(parts, ExpressionTable::kNothing);
  memories.input = memories.workspace = memories.output;
  for (uint32_t part = 0; part < parts; ++part) {
    if (!contract_.has_input(rank, slice, part)) continue;
    memory(rank, chunk, Location::input)[part] = table_.input_of(rank);
  }
}

Payload& RehearsalMemory::memory(int rank, uint32_t chunk, Location location) {
  Memories& memories = at(rank, chunk);
  if (location == Location::workspace) return memories.workspace;
  const bool is_apart = location == Location::input && !contract_.may_be_in_place();
  return is_apart ? memories.input : memories.output;
}

Payload RehearsalMemory::read(int rank, uint32_t chunk, const Step& step) {
  const Payload& source = memory(rank, chunk, read_location(step));
  return {source.begin() + step.part_begin, source.begin() + step.part_end};
}

void RehearsalMemory::land(int rank, uint32_t chunk, const Step& step, const Payload& payload) {
  Payload& target = memory(rank, chunk, write_location(step));
  std::copy(payload.begin(), payload.end(), target.begin() + step.part_begin);
}

void RehearsalMemory::reduce(int rank, uint32_t chunk, const Step& step, const Payload& payload) {
  if (step.kind == StepKind::recv_whole) return land(rank, chunk, step, payload);
  const Payload own = read(rank, chunk, step);
  Payload& target = memory(rank, chunk, write_location(step));
  for (uint32_t i = 0; i < own.size(); ++i) {
    const Expression sum = step.peer_first ? table_.reduced(payload[i], own[i])
                                           : table_.reduced(own[i], payload[i]);
    target[step.part_begin + i] = step.final ? table_.scaled(sum) : sum;
  }
}

void RehearsalMemory::copy(int rank, uint32_t chunk, const Step& step) {
  land(rank, chunk, step, read(rank, chunk, step));
}

void RehearsalMemory::drop_workspace(int rank, uint32_t chunk) {
  Payload& workspace = at(rank, chunk).workspace;
  std::fill(workspace.begin(), workspace.end(), ExpressionTable::kNothing);
}

bool RehearsalMemory::is_right(int rank, uint32_t chunk) {
  const auto slice = static_cast<uint32_t>(chunk % slices_.size());
  const Payload& output = at(rank, chunk).output;
  for (uint32_t part = 0; part < output.size(); ++part) {
    if (!contract_.complaint(table_, rank, slice, part, output[part]).empty()) return false;
  }
  if (!contract_.agrees(rank)) return true;
  Payload& expected = expected_[slice];
  if (expected.empty()) expected = output;
  return expected == output;
}

void RehearsalMemory::give_back(int rank) {
  for (uint32_t chunk = 0; chunk < chunk_count_; ++chunk) {
    Memories& memories = at(rank, chunk);
    std::fill(memories.output.begin(), memories.output.end(), ExpressionTable::kNothing);
    std::fill(memories.input.begin(), memories.input.end(), ExpressionTable::kNothing);
  }
}

}  // namespace nezha::schedule
