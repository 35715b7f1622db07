#include "proof/flow.h"

#include <algorithm>

namespace nezha::schedule {

Flow::Flow(const SliceLinks& links, const Contract& contract, ExpressionTable& table)
    : links_(links), contract_(contract), table_(table) {
  const size_t ranks = links.ranks.size();
  starts_.resize(ranks);
  now_.assign(ranks, Moment(ranks, 0));
  round_.assign(ranks, 0);
  output_.assign(ranks, std::vector<Expression>(links.parts(), ExpressionTable::kNothing));
  workspace_ = output_;
  writer_.assign(ranks, std::vector<Place>(links.parts()));
  payloads_.resize(ranks);
  for (size_t rank = 0; rank < ranks; ++rank) {
    payloads_[rank].resize(links.program(static_cast<int>(rank)).steps.size());
  }
}

Status Flow::run() {
  for (int rank = 0; rank < links_.world_size(); ++rank) start_round(rank);
  for (bool progress = true; progress && failure_;) {
    progress = false;
    for (int rank = 0; rank < links_.world_size(); ++rank) {
      while (failure_ && advance(rank)) progress = true;
    }
  }
  NEZHA_RETURN_IF_ERROR(failure_);
  for (int rank = 0; rank < links_.world_size(); ++rank) {
    if (round_[rank] < links_.program(rank).round_count()) {
      const Place stuck = awaited(rank);
      return error(Code::internal, "%s: deadlock: its sender never reaches its round: %s",
                   describe(links_, stuck).c_str(),
                   describe(links_, links_.other_end[stuck.rank][stuck.step]).c_str());
    }
  }
  return Status::ok();
}

bool Flow::advance(int rank) {
  if (round_[rank] >= links_.program(rank).round_count() || awaited(rank).rank >= 0) return false;
  end_round(rank);
  start_round(rank);
  return true;
}

void Flow::start_round(int rank) {
  const Program& program = links_.program(rank);
  const uint32_t round = round_[rank];
  if (round >= program.round_count()) return;
  now_[rank][rank] = static_cast<uint16_t>(2 * round + 1);
  starts_[rank].push_back(now_[rank]);
  const uint32_t begin = round == 0 ? 0 : program.round_ends[round - 1];
  for (uint32_t i = begin; i < program.round_ends[round]; ++i) {
    const Step& step = program.steps[i];
    if (step.kind != StepKind::send) continue;
    for (uint32_t part = step.part_begin; part < step.part_end; ++part) {
      payloads_[rank][i].push_back(operand({rank, round, i}, part));
    }
  }
}

Place Flow::awaited(int rank) const {
  const Program& program = links_.program(rank);
  const uint32_t round = round_[rank];
  const uint32_t begin = round == 0 ? 0 : program.round_ends[round - 1];
  for (uint32_t i = begin; i < program.round_ends[round]; ++i) {
    if (!receives(program.steps[i])) continue;
    const Place& source = links_.other_end[rank][i];
    if (starts_[source.rank].size() <= source.round) return {rank, round, i};
  }
  return {};
}

void Flow::end_round(int rank) {
  const Program& program = links_.program(rank);
  const uint32_t round = round_[rank];
  const uint32_t begin = round == 0 ? 0 : program.round_ends[round - 1];
  Moment& now = now_[rank];
  for (uint32_t i = begin; i < program.round_ends[round]; ++i) {
    apply({rank, round, i});
    if (!receives(program.steps[i])) continue;
    const Place& source = links_.other_end[rank][i];
    const Moment& sent = starts_[source.rank][source.round];
    for (size_t other = 0; other < now.size(); ++other) {
      now[other] = std::max(now[other], sent[other]);
    }
  }
  now[rank] = static_cast<uint16_t>(2 * round + 2);
  ++round_[rank];
}

void Flow::apply(const Place& place) {
  const Step& step = links_.step(place);
  if (step.kind == StepKind::send) return;
  for (uint32_t part = step.part_begin; part < step.part_end; ++part) {
    if (!step.in_workspace && !contract_.has_output(place.rank, links_.slice, part)) {
      fail(place, "writes where this rank has no output");
    }
    if (!step.in_workspace) writer_[place.rank][part] = place;
    if (step.kind == StepKind::copy) {
      copy(place, part);
      continue;
    }
    const Place& source = links_.other_end[place.rank][place.step];
    const Expression incoming = payloads_[source.rank][source.step][part - step.part_begin];
    Expression& target = memory(place, part);
    if (step.kind != StepKind::recv_reduce) {
      target = incoming;
      continue;
    }
    const Expression own = operand(place, part);
    target = step.peer_first ? table_.reduced(incoming, own) : table_.reduced(own, incoming);
    if (step.final) target = table_.scaled(target);
    if (target == ExpressionTable::kInvalid) {
      fail(place, "a contribution is counted twice, or a scaled value is used again");
    }
  }
}

void Flow::copy(const Place& place, uint32_t part) {
  Expression& target = memory(place, part);
  if (links_.step(place).from_input) {
    if (target != ExpressionTable::kNothing) fail(place, "copies over what was written already");
    target = input(place, part);
    return;
  }
  target = workspace_[place.rank][part];
  if (target == ExpressionTable::kNothing) {
    fail(place, "reads a workspace that nothing has written yet");
  }
}

Expression& Flow::memory(const Place& place, uint32_t part) {
  return (links_.step(place).in_workspace ? workspace_ : output_)[place.rank][part];
}

// The range is the input until it was written, and never after: `from_input` must be exactly right.
Expression Flow::operand(const Place& place, uint32_t part) {
  const Expression written = memory(place, part);
  const bool is_written = written != ExpressionTable::kNothing;
  if (links_.step(place).from_input == is_written) {
    fail(place, is_written ? "reads an input where it has written already"
                           : "reads a range that nothing has written yet");
  }
  return is_written ? written : input(place, part);
}

// In place, too, the input is still there: an output is written after the workspace, if there is one,
// and what was written is not read from the input again.
Expression Flow::input(const Place& place, uint32_t part) {
  if (!contract_.has_input(place.rank, links_.slice, part)) {
    fail(place, "reads where this rank has no input");
  }
  return table_.input_of(place.rank);
}

void Flow::fail(const Place& place, const char* sentence) {
  if (!failure_) return;
  failure_ = error(Code::internal, "%s: %s", describe(links_, place).c_str(), sentence);
}

Expression Flow::value(int rank, uint32_t part) const {
  const Expression output = output_[rank][part];
  const bool is_input = output == ExpressionTable::kNothing && contract_.has_one_buffer();
  return is_input ? table_.input_of(rank) : output;
}

}  // namespace nezha::schedule
