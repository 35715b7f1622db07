#include "schedule/builder.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "base/check.h"

namespace nezha::schedule {
namespace {

bool writes_memory(const Step& step) { return step.kind != StepKind::send; }

bool reads_operand(StepKind kind) {
  return kind == StepKind::send || kind == StepKind::recv_reduce;
}

// Sets `from_input` where nothing of the range was written before this round in the memory in which the
// step works (a `keep` only fills the output from the workspace). A range of which only a part was
// written has no single place to be read from.
void fill_from_input(Program& program) {
  std::vector<bool> written_in[] = {std::vector<bool>(program.parts, false),
                                    std::vector<bool>(program.parts, false)};
  uint32_t begin = 0;
  for (const uint32_t end : program.round_ends) {
    for (uint32_t i = begin; i < end; ++i) {
      Step& step = program.steps[i];
      if (step.part_begin == step.part_end) continue;
      std::vector<bool>& written = written_in[step.in_workspace || is_keep(step)];
      const auto first = written.begin() + step.part_begin;
      const auto last = written.begin() + step.part_end;
      const auto count = std::count(first, last, true);
      NEZHA_CHECK(!is_keep(step) || count == last - first);
      if (!reads_operand(step.kind)) continue;
      NEZHA_CHECK(count == 0 || count == last - first);
      step.from_input = count == 0;
    }
    for (uint32_t i = begin; i < end; ++i) {
      const Step& step = program.steps[i];
      if (!writes_memory(step) || is_keep(step)) continue;
      std::vector<bool>& written = written_in[step.in_workspace];
      std::fill(written.begin() + step.part_begin, written.begin() + step.part_end, true);
    }
    begin = end;
  }
}

}  // namespace

Builder::Builder(uint32_t parts, Memory memory) : memory_(memory) {
  NEZHA_CHECK(parts > 0);
  program_.parts = parts;
}

Builder& Builder::work_in(Memory memory) {
  memory_ = memory;
  return *this;
}

Builder& Builder::next_round() {
  const auto size = static_cast<uint32_t>(program_.steps.size());
  const uint32_t last = program_.round_ends.empty() ? 0 : program_.round_ends.back();
  if (size > last) program_.round_ends.push_back(size);
  return *this;
}

void Builder::add(StepKind kind, int peer, Parts parts, Tag tag) {
  constexpr int kTagMax = std::numeric_limits<uint16_t>::max();
  NEZHA_CHECK(parts.begin <= parts.end && parts.end <= program_.parts);
  NEZHA_CHECK(tag.stage >= 0 && tag.stage <= kTagMax && tag.slot >= 0 && tag.slot <= kTagMax);
  const uint32_t begin = program_.round_ends.empty() ? 0 : program_.round_ends.back();
  const bool opens_round = program_.steps.size() == begin;
  NEZHA_CHECK(kind != StepKind::send || opens_round ||
              program_.steps.back().kind == StepKind::send);
  Step step;
  step.kind = kind;
  step.in_workspace = memory_ == Memory::workspace;
  step.stage = static_cast<uint16_t>(tag.stage);
  step.slot = static_cast<uint16_t>(tag.slot);
  step.peer = peer;
  step.part_begin = parts.begin;
  step.part_end = parts.end;
  program_.steps.push_back(step);
}

Builder& Builder::send(int peer, Parts parts, Tag tag, Source source) {
  add(StepKind::send, peer, parts, tag);
  program_.steps.back().copy_source = source == Source::copied;
  return *this;
}

Builder& Builder::recv(int peer, Parts parts, Tag tag) {
  add(StepKind::recv, peer, parts, tag);
  return *this;
}

Builder& Builder::recv_whole(int peer, Parts parts, Tag tag) {
  add(StepKind::recv_whole, peer, parts, tag);
  return *this;
}

Builder& Builder::recv_reduce(int peer, Parts parts, Tag tag, Completes completes,
                              Operands operands) {
  add(StepKind::recv_reduce, peer, parts, tag);
  program_.steps.back().final = completes == Completes::yes;
  program_.steps.back().peer_first = operands == Operands::peer_first;
  return *this;
}

Builder& Builder::copy(Parts parts) {
  add(StepKind::copy, -1, parts, {});
  program_.steps.back().from_input = true;
  return *this;
}

Builder& Builder::keep(Parts parts) {
  NEZHA_CHECK(memory_ == Memory::workspace);
  add(StepKind::copy, -1, parts, {});
  program_.steps.back().in_workspace = false;
  return *this;
}

Builder& Builder::closing() {
  next_round();
  NEZHA_CHECK(program_.round_count() > 0);
  program_.closing = program_.round_count();
  return *this;
}

Program Builder::finish() {
  next_round();
  fill_from_input(program_);
  return std::move(program_);
}

Program lone_rank_program(Parts parts) {
  return Builder(std::max<uint32_t>(1, parts.end)).copy(parts).finish();
}

}  // namespace nezha::schedule
