#include "proof/verifier.h"

#include <algorithm>
#include <vector>

#include "proof/contract.h"
#include "proof/expression.h"
#include "proof/flow.h"
#include "proof/hazards.h"
#include "proof/links.h"

namespace nezha::schedule {
namespace {

Status check_outputs(const SliceLinks& links, const Contract& contract, const Flow& flow,
                     const ExpressionTable& table) {
  for (int rank = 0; rank < links.world_size(); ++rank) {
    for (uint32_t part = 0; part < links.parts(); ++part) {
      const Expression value = flow.value(rank, part);
      std::string wrong = contract.complaint(table, rank, links.slice, part, value);
      if (wrong.empty() && contract.agrees(rank) && value != flow.value(0, part)) {
        wrong = "added in another order than on rank 0";
      }
      if (wrong.empty()) continue;
      const Place& writer = flow.writer(rank, part);
      if (writer.rank < 0) {
        return error(Code::internal, "rank %d, slice %u, part %u: %s; no step of this rank writes it",
                     rank, links.slice, part, wrong.c_str());
      }
      return error(Code::internal, "%s: part %u of the output: %s", describe(links, writer).c_str(), part,
                   wrong.c_str());
    }
  }
  return Status::ok();
}

Status check_barrier(const SliceLinks& links, const Flow& flow) {
  const int ranks = links.world_size() - links.ranks[0].nodes;
  for (int rank = 0; rank < ranks; ++rank) {
    for (int other = 0; other < ranks; ++other) {
      if (!Flow::has_started(flow.end_of(rank), other, 0)) {
        return error(Code::internal, "rank %d leaves the barrier without a message from rank %d", rank,
                     other);
      }
    }
  }
  return Status::ok();
}

// `turn`: by peer, what the rank sent it in earlier slices.
void measure(const SliceLinks& links, int rank, std::vector<double>& turn, Proof& proof) {
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
      if (receives(step) && step.kind != StepKind::recv) {
        scratch[step.peer] += size;
        if (received_before && size > 0) proof.consumes_on_arrival = false;
      }
      receives_now |= receives(step);
    }
    received_before |= receives_now;
  }
  proof.pair_load = std::max(proof.pair_load, *std::max_element(sent.begin(), sent.end()));
  for (size_t peer = 0; peer < sent.size(); ++peer) {
    turn[peer] += sent[peer];
    proof.pair_turn = std::max(proof.pair_turn, turn[peer]);
  }
  proof.pair_scratch =
      std::max(proof.pair_scratch, *std::max_element(scratch.begin(), scratch.end()));
  proof.rounds = std::max(proof.rounds, program.round_count());
}

}  // namespace

Result<Proof> verify(std::span<const Schedule> ranks, const StepLines* lines) {
  if (ranks.size() > kProvableRanksMax) {
    return error(Code::unsupported, "a world of %zu ranks: proofs go up to %d", ranks.size(),
                 kProvableRanksMax);
  }
  NEZHA_RETURN_IF_ERROR(check_shape(ranks, lines));
  Result<Contract> contract = Contract::of(ranks);
  if (!contract) return contract.status();
  Proof proof;
  proof.slices = ranks[0].slices();
  ExpressionTable table;
  std::vector<std::vector<double>> turns(ranks.size(), std::vector<double>(ranks.size(), 0));
  for (uint32_t slice = 0; slice < ranks[0].slices(); ++slice) {
    Result<SliceLinks> links = link(ranks, slice, lines);
    if (!links) return links.status();
    Flow flow(*links, *contract, table);
    NEZHA_RETURN_IF_ERROR(flow.run());
    const bool is_barrier = ranks[0].collective == Collective::barrier;
    NEZHA_RETURN_IF_ERROR(is_barrier ? check_barrier(*links, flow)
                                     : check_outputs(*links, *contract, flow, table));
    for (int rank = 0; rank < links->world_size(); ++rank) {
      NEZHA_RETURN_IF_ERROR(check_hazards(*links, *contract, flow, rank));
      measure(*links, rank, turns[static_cast<size_t>(rank)], proof);
    }
  }
  return proof;
}

double credit_needed(const Proof& proof, uint32_t window) {
  if (proof.consumes_on_arrival) return proof.largest_message;
  const uint32_t turns = window / proof.slices + (window % proof.slices != 0 ? 1 : 0);
  return std::min(window * proof.pair_load, turns * proof.pair_turn);
}

}  // namespace nezha::schedule
