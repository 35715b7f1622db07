#include "schedule/verifier.h"

#include <algorithm>
#include <vector>

#include "schedule/expression.h"
#include "schedule/flow.h"
#include "schedule/links.h"

namespace nezha::schedule {
namespace {

bool overlap(const Step& a, const Step& b) {
  return std::max(a.part_begin, b.part_begin) < std::min(a.part_end, b.part_end);
}

// Checks that one write to the output comes after all earlier uses of the same range.
class WriteCheck {
 public:
  WriteCheck(const SliceLinks& links, const Flow& flow, const Place& write)
      : links_(links), flow_(flow), write_(write), step_(links.step(write)),
        earliest_(earliest_moment()) {}

  Status follows(const Place& earlier) const {
    const Step& use = links_.step(earlier);
    if (!overlap(use, step_)) return Status::ok();
    if (use.kind == StepKind::send) return follows_send(earlier, use);
    if (earlier.round == write_.round) {
      return broken(earlier, "two steps of one round write the same parts");
    }
    if (step_.kind == StepKind::recv && !Flow::has_ended(earliest_, write_.rank, earlier.round)) {
      return broken(earlier, "may land while the earlier round still uses the parts");
    }
    return Status::ok();
  }

 private:
  // A `recv` may land as soon as it was sent; the rest waits for its own round, too.
  Moment earliest_moment() const {
    Moment moment(links_.ranks.size(), 0);
    if (receives(step_)) {
      const Place& source = links_.other_end[write_.rank][write_.step];
      moment = flow_.start_of(source.rank, source.round);
    }
    if (step_.kind == StepKind::recv) return moment;
    const Moment& own = flow_.start_of(write_.rank, write_.round);
    for (size_t i = 0; i < moment.size(); ++i) moment[i] = std::max(moment[i], own[i]);
    return moment;
  }

  Status follows_send(const Place& earlier, const Step& send) const {
    if (send.copy_source) {
      if (Flow::has_started(earliest_, write_.rank, earlier.round)) return Status::ok();
      return broken(earlier, "may land before the private copy was taken");
    }
    const Place& receipt = links_.other_end[earlier.rank][earlier.step];
    if (Flow::has_ended(earliest_, receipt.rank, receipt.round)) return Status::ok();
    return broken(earlier, "may overwrite a source before its delivery");
  }

  Status broken(const Place& earlier, const char* sentence) const {
    return error(Code::internal, "%s: %s: %s", describe(links_, write_).c_str(), sentence,
                 describe(links_, earlier).c_str());
  }

  const SliceLinks& links_;
  const Flow& flow_;
  const Place write_;
  const Step& step_;
  const Moment earliest_;
};

Status check_writes(const SliceLinks& links, const Flow& flow, int rank) {
  std::vector<Place> earlier;
  const Program& program = links.program(rank);
  uint32_t i = 0;
  for (uint32_t round = 0; round < program.round_count(); ++round) {
    for (; i < program.round_ends[round]; ++i) {
      const Place place{rank, round, i};
      if (program.steps[i].kind != StepKind::send) {
        const WriteCheck check(links, flow, place);
        for (const Place& use : earlier) NEZHA_RETURN_IF_ERROR(check.follows(use));
      }
      earlier.push_back(place);
    }
  }
  return Status::ok();
}

Status wrong_result(const SliceLinks& links, int rank, uint32_t part, const char* sentence) {
  return error(Code::internal, "rank %d, slice %u, part %u: %s", rank, links.slice, part, sentence);
}

Status check_all_reduce(const SliceLinks& links, const Flow& flow, const ExpressionTable& table) {
  const int world_size = links.world_size();
  const uint64_t everybody = ~uint64_t{0} >> (kProvableRanksMax - world_size);
  for (uint32_t part = 0; part < links.parts(); ++part) {
    const Expression first = flow.value(0, part);
    for (int rank = 0; rank < world_size; ++rank) {
      const Expression value = flow.value(rank, part);
      if (table.contributors(value) != everybody) {
        return wrong_result(links, rank, part, "the result lacks a rank's contribution");
      }
      if (table.is_scaled(value) != (world_size > 1)) {
        return wrong_result(links, rank, part, "avg does not scale the result exactly once");
      }
      if (value != first) {
        return wrong_result(links, rank, part, "added in another order than on rank 0");
      }
    }
  }
  return Status::ok();
}

Status check_broadcast(const SliceLinks& links, const Flow& flow, const ExpressionTable& table) {
  const Expression wanted = table.input_of(links.ranks[0].root);
  for (int rank = 0; rank < links.world_size(); ++rank) {
    for (uint32_t part = 0; part < links.parts(); ++part) {
      if (flow.value(rank, part) != wanted) {
        return wrong_result(links, rank, part, "does not hold what the root sent");
      }
    }
  }
  return Status::ok();
}

Status check_barrier(const SliceLinks& links, const Flow& flow) {
  for (int rank = 0; rank < links.world_size(); ++rank) {
    for (int other = 0; other < links.world_size(); ++other) {
      if (!Flow::has_started(flow.end_of(rank), other, 0)) {
        return error(Code::internal, "rank %d leaves the barrier without word from rank %d", rank,
                     other);
      }
    }
  }
  return Status::ok();
}

Status check_result(const SliceLinks& links, const Flow& flow, const ExpressionTable& table) {
  switch (links.ranks[0].collective) {
    case Collective::all_reduce: return check_all_reduce(links, flow, table);
    case Collective::broadcast: return check_broadcast(links, flow, table);
    case Collective::barrier: return check_barrier(links, flow);
  }
  return error(Code::internal, "no such collective");
}

void measure(const SliceLinks& links, int rank, Proof& proof) {
  std::vector<double> sent(links.ranks.size(), 0);
  std::vector<double> scratch(links.ranks.size(), 0);
  const Program& program = links.program(rank);
  bool received_before = false;
  for (uint32_t round = 0; round < program.round_count(); ++round) {
    bool receives_now = false;
    for (const Step& step : program.round(round)) {
      const double size = static_cast<double>(step.part_end - step.part_begin) / program.parts;
      if (step.kind == StepKind::send) {
        sent[step.peer] += size;
        proof.largest_message = std::max(proof.largest_message, size);
      }
      if (step.kind == StepKind::recv_reduce) {
        scratch[step.peer] += size;
        if (received_before && size > 0) proof.consumes_on_arrival = false;
      }
      receives_now |= receives(step);
    }
    received_before |= receives_now;
  }
  proof.pair_load = std::max(proof.pair_load, *std::max_element(sent.begin(), sent.end()));
  proof.pair_scratch =
      std::max(proof.pair_scratch, *std::max_element(scratch.begin(), scratch.end()));
  proof.rounds = std::max(proof.rounds, program.round_count());
}

}  // namespace

Result<Proof> verify(std::span<const Schedule> ranks) {
  if (ranks.size() > kProvableRanksMax) {
    return error(Code::unsupported, "a world of %zu ranks: proofs go up to %d", ranks.size(),
                 kProvableRanksMax);
  }
  NEZHA_RETURN_IF_ERROR(check_shape(ranks));
  Proof proof;
  ExpressionTable table;
  for (uint32_t slice = 0; slice < ranks[0].slices(); ++slice) {
    Result<SliceLinks> links = link(ranks, slice);
    if (!links) return links.status();
    Flow flow(*links, table);
    NEZHA_RETURN_IF_ERROR(flow.run());
    NEZHA_RETURN_IF_ERROR(check_result(*links, flow, table));
    for (int rank = 0; rank < links->world_size(); ++rank) {
      NEZHA_RETURN_IF_ERROR(check_writes(*links, flow, rank));
      measure(*links, rank, proof);
    }
  }
  return proof;
}

double credit_needed(const Proof& proof, uint32_t window) {
  return proof.consumes_on_arrival ? proof.largest_message : window * proof.pair_load;
}

}  // namespace nezha::schedule
