#include "schedule/composition.h"

#include "base/check.h"

namespace nezha::schedule {

void Composition::add(const Step& step, int peer, Parts parts, Tag tag, Completes completes) {
  switch (step.kind) {
    case StepKind::send:
      builder_.send(peer, parts, tag, step.copy_source ? Source::copied : Source::live);
      return;
    case StepKind::recv: builder_.recv(peer, parts, tag); return;
    case StepKind::recv_whole: builder_.recv_whole(peer, parts, tag); return;
    case StepKind::recv_reduce:
      builder_.recv_reduce(peer, parts, tag, completes,
                           step.peer_first ? Operands::peer_first : Operands::own_first);
      return;
    case StepKind::copy: return;
  }
}

Composition& Composition::then(const Program& program, const Phase& phase) {
  for (uint32_t round = 0; round < program.round_count(); ++round) {
    builder_.next_round();
    for (const Step& step : program.round(round)) {
      if (step.kind == StepKind::copy) continue;
      NEZHA_CHECK(step.stage < kStages);
      const Parts own{step.part_begin, step.part_end};
      const std::vector<Parts> runs = phase.parts ? phase.parts(own) : std::vector<Parts>{own};
      NEZHA_CHECK(runs.size() <= kRuns);
      const bool completes = step.final && phase.completes == Completes::yes;
      int slot = step.slot * kRuns;
      for (const Parts& run : runs) {
        add(step, phase.ranks[static_cast<size_t>(step.peer)], run,
            {phase_ * kStages + step.stage, slot++}, completes ? Completes::yes : Completes::no);
      }
    }
  }
  return *this;
}

Composition& Composition::next_phase() {
  ++phase_;
  return *this;
}

Composition& Composition::copy(Parts parts) {
  builder_.next_round().copy(parts).next_round();
  return *this;
}

Composition& Composition::keep(std::span<const Parts> parts) {
  builder_.next_round();
  for (const Parts& each : parts) builder_.keep(each);
  builder_.next_round();
  return *this;
}

}  // namespace nezha::schedule
