#include "proof/links.h"

#include <unordered_map>

#include "proof/printer.h"

namespace nezha::schedule {
namespace {

std::string at(const SliceLinks& links, int rank, uint32_t round, uint32_t step) {
  return describe(links, {rank, round, step});
}

// Why the step makes no sense by itself; nullptr when it does.
const char* complaint(const Step& step, int rank, int world_size, uint32_t parts) {
  const bool transfers = step.kind == StepKind::send || receives(step);
  if (step.part_begin > step.part_end || step.part_end > parts) return "no such parts";
  if (transfers && (step.peer < 0 || step.peer >= world_size)) return "no such peer";
  if (transfers && step.peer == rank) return "the peer is the rank itself";
  if (!transfers && step.peer != -1) return "a local step has no peer";
  if (step.copy_source && step.kind != StepKind::send) return "copy_source is for sends";
  const bool reduces = step.kind == StepKind::recv_reduce;
  if ((step.final || step.peer_first) && !reduces) {
    return "final and peer_first are for reductions";
  }
  if (step.from_input && receives(step) && !reduces) return "a recv has no operand";
  if (is_keep(step) && step.in_workspace) {
    return "a copy out of the workspace goes to the output";
  }
  return nullptr;
}

Status check_program(const SliceLinks& links, int rank) {
  const Program& program = links.program(rank);
  uint32_t begin = 0;
  for (uint32_t round = 0; round < program.round_count(); ++round) {
    const uint32_t end = program.round_ends[round];
    if (end <= begin || end > program.steps.size()) {
      return error(Code::internal, "rank %d, slice %u, round %u is empty or out of range", rank,
                   links.slice, round);
    }
    for (uint32_t i = begin; i < end; ++i) {
      const Step& step = program.steps[i];
      const char* wrong = complaint(step, rank, links.world_size(), program.parts);
      if (step.kind == StepKind::send && i > begin &&
          program.steps[i - 1].kind != StepKind::send) {
        wrong = "sends come first in a round";
      }
      if (wrong != nullptr) {
        return error(Code::internal, "%s: %s", at(links, rank, round, i).c_str(), wrong);
      }
    }
    begin = end;
  }
  if (begin != program.steps.size()) {
    return error(Code::internal, "rank %d, slice %u has steps outside its rounds", rank,
                 links.slice);
  }
  return Status::ok();
}

uint64_t key_of(int source, int destination, const Step& step) {
  return (static_cast<uint64_t>(source) << 48) | (static_cast<uint64_t>(destination) << 32) |
         (static_cast<uint64_t>(step.stage) << 16) | step.slot;
}

// Calls visit(place, step) for every transfer of the wanted direction.
template <class Visit>
Status for_each_transfer(const SliceLinks& links, bool sends, Visit visit) {
  for (int rank = 0; rank < links.world_size(); ++rank) {
    const Program& program = links.program(rank);
    uint32_t i = 0;
    for (uint32_t round = 0; round < program.round_count(); ++round) {
      for (; i < program.round_ends[round]; ++i) {
        const Step& step = program.steps[i];
        if (sends ? step.kind != StepKind::send : !receives(step)) continue;
        NEZHA_RETURN_IF_ERROR(visit(Place{rank, round, i}, step));
      }
    }
  }
  return Status::ok();
}

}  // namespace

std::string describe(const SliceLinks& links, const Place& place) {
  std::string line;
  if (links.lines != nullptr) {
    const auto rank = static_cast<size_t>(place.rank);
    line = "line " + std::to_string((*links.lines)[rank][links.slice][place.step]) + ", ";
  }
  return line + "rank " + std::to_string(place.rank) + ", slice " + std::to_string(links.slice) +
         ", round " + std::to_string(place.round) + ", step " + std::to_string(place.step) + " (" +
         to_text(links.step(place)) + ")";
}

Status check_shape(std::span<const Schedule> ranks, const StepLines* lines) {
  if (ranks.empty()) return error(Code::internal, "no schedules to look at");
  const Schedule& first = ranks[0];
  if (first.programs.empty()) return error(Code::internal, "rank 0 has no program");
  for (size_t i = 0; i < ranks.size(); ++i) {
    const Schedule& schedule = ranks[i];
    const int rank = static_cast<int>(i);
    if (schedule.rank != rank || schedule.world_size != static_cast<int>(ranks.size()) ||
        schedule.collective != first.collective || schedule.algorithm != first.algorithm ||
        schedule.root != first.root || schedule.slices() != first.slices() ||
        schedule.nodes != first.nodes || schedule.nodes < 0 || schedule.nodes >= schedule.world_size) {
      return error(Code::internal, "the schedule of rank %d is of another operation or size", rank);
    }
    for (uint32_t slice = 0; slice < schedule.slices(); ++slice) {
      if (schedule.programs[slice].parts != first.programs[slice].parts ||
          schedule.programs[slice].parts == 0) {
        return error(Code::internal, "rank %d, slice %u cuts its chunks differently", rank, slice);
      }
      NEZHA_RETURN_IF_ERROR(check_program({ranks, slice, lines, {}}, rank));
    }
  }
  return Status::ok();
}

Result<SliceLinks> link(std::span<const Schedule> ranks, uint32_t slice, const StepLines* lines) {
  SliceLinks links{ranks, slice, lines, {}};
  for (int rank = 0; rank < links.world_size(); ++rank) {
    links.other_end.emplace_back(links.program(rank).steps.size());
  }
  std::unordered_map<uint64_t, Place> sends;
  NEZHA_RETURN_IF_ERROR(for_each_transfer(links, true, [&](Place place, const Step& step) {
    if (sends.try_emplace(key_of(place.rank, step.peer, step), place).second) return Status::ok();
    return error(Code::internal, "%s: another send has this identity",
                 describe(links, place).c_str());
  }));
  NEZHA_RETURN_IF_ERROR(for_each_transfer(links, false, [&](Place place, const Step& step) {
    const auto found = sends.find(key_of(step.peer, place.rank, step));
    if (found == sends.end()) {
      return error(Code::internal, "%s: no rank sends this", describe(links, place).c_str());
    }
    const Place source = found->second;
    const Step& sent = links.step(source);
    if (sent.part_begin != step.part_begin || sent.part_end != step.part_end) {
      return error(Code::internal, "%s: the sender sends other parts: %s",
                   describe(links, place).c_str(), describe(links, source).c_str());
    }
    links.other_end[place.rank][place.step] = source;
    links.other_end[source.rank][source.step] = place;
    sends.erase(found);
    return Status::ok();
  }));
  if (!sends.empty()) {
    return error(Code::internal, "%s: no rank receives this",
                 describe(links, sends.begin()->second).c_str());
  }
  return links;
}

}  // namespace nezha::schedule
