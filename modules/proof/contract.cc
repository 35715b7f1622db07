#include "proof/contract.h"

#include <algorithm>
#include <bit>
#include <optional>

namespace nezha::schedule {
namespace {

std::string not_reduced(const ExpressionTable& table, int ranks, Expression value) {
  const uint64_t everybody = ~uint64_t{0} >> (kProvableRanksMax - ranks);
  const uint64_t missing = everybody & ~table.contributors(value);
  if (missing != 0) {
    return "the result lacks the contribution of rank " + std::to_string(std::countr_zero(missing));
  }
  if (table.is_scaled(value) != (ranks > 1)) {
    return "avg does not scale the result exactly once, by the flag final of its last addition";
  }
  return {};
}

// Blocks are slices or parts; with one rank there is no difference.
std::optional<Geometry> geometry_of(Collective collective, uint32_t slices, uint32_t parts,
                                    uint32_t ranks) {
  switch (collective) {
    case Collective::all_reduce:
    case Collective::broadcast:
    case Collective::barrier:
    case Collective::reduce: return Geometry::even;
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::gather:
    case Collective::scatter:
      if (slices == ranks) return Geometry::block_slices;
      if (slices == 1 && parts == ranks) return Geometry::block_parts;
      return std::nullopt;
    case Collective::all_to_all:
    case Collective::all_to_all_v:
      if (slices == ranks) return Geometry::pair_slices;
      if (collective == Collective::all_to_all && slices == 1 && parts == ranks * ranks) {
        return Geometry::rows;
      }
      return std::nullopt;
    case Collective::send_recv: return std::nullopt;
  }
  return std::nullopt;
}

// A `keep` fills the output from the workspace; all other steps work in one of them.
bool mixes_memories(const Program& program) {
  const auto works_elsewhere = [&](const Step& step) {
    return !is_keep(step) && step.in_workspace != program.works_in_workspace();
  };
  return std::any_of(program.steps.begin(), program.steps.end(), works_elsewhere);
}

// Where input and output may be the same memory, what was written in one is not there in the other.
Status check_memories(std::span<const Schedule> ranks) {
  for (const Schedule& schedule : ranks) {
    for (uint32_t slice = 0; slice < schedule.slices(); ++slice) {
      if (!mixes_memories(schedule.programs[slice])) continue;
      return error(Code::internal, "rank %d, slice %u works in the output and in the workspace",
                   schedule.rank, slice);
    }
  }
  return Status::ok();
}

}  // namespace

Result<Contract> Contract::of(std::span<const Schedule> ranks) {
  const Schedule& first = ranks[0];
  const int count = first.world_size - first.nodes;
  const std::optional<Geometry> geometry =
      geometry_of(first.collective, first.slices(), first.programs[0].parts,
                  static_cast<uint32_t>(count));
  if (!geometry) {
    return error(Code::internal, "%s over %d ranks cannot have %u slices of %u parts",
                 name_of(first.collective).data(), count, first.slices(),
                 first.programs[0].parts);
  }
  Contract contract;
  contract.collective_ = first.collective;
  contract.geometry_ = *geometry;
  if (contract.may_be_in_place()) NEZHA_RETURN_IF_ERROR(check_memories(ranks));
  contract.ranks_ = count;
  contract.root_ = first.root;
  return contract;
}

int Contract::block(uint32_t slice, uint32_t part) const {
  if (geometry_ == Geometry::rows) return static_cast<int>(part) / ranks_;
  return static_cast<int>(is_one_chunk(geometry_) ? part : slice);
}

bool Contract::has_input(int rank, uint32_t slice, uint32_t part) const {
  if (rank >= ranks_) return false;
  switch (collective_) {
    case Collective::all_gather:
    case Collective::gather: return block(slice, part) == rank;
    case Collective::scatter: return rank == root_;
    case Collective::all_to_all: return geometry_ != Geometry::rows || block(slice, part) == rank;
    default: return true;
  }
}

bool Contract::has_output(int rank, uint32_t slice, uint32_t part) const {
  if (rank >= ranks_) return false;
  switch (collective_) {
    case Collective::reduce_scatter:
    case Collective::scatter: return block(slice, part) == rank;
    case Collective::reduce:
    case Collective::gather: return rank == root_;
    case Collective::barrier: return false;
    case Collective::all_to_all:
      return geometry_ != Geometry::rows || static_cast<int>(part) % ranks_ == rank;
    default: return true;
  }
}

std::string Contract::complaint(const ExpressionTable& table, int rank, uint32_t slice,
                                uint32_t part, Expression value) const {
  if (!has_output(rank, slice, part)) return {};
  const auto holds_input_of = [&](int source, const char* sentence) {
    return value == table.input_of(source) ? std::string() : sentence;
  };
  switch (collective_) {
    case Collective::all_reduce:
    case Collective::reduce:
    case Collective::reduce_scatter: return not_reduced(table, ranks_, value);
    case Collective::broadcast:
    case Collective::scatter: return holds_input_of(root_, "does not hold what the root sent");
    case Collective::all_gather:
    case Collective::gather:
      return holds_input_of(block(slice, part), "does not hold the block of its owner");
    case Collective::all_to_all:
    case Collective::all_to_all_v:
      if (geometry_ == Geometry::rows) {
        return holds_input_of(block(slice, part), "does not hold the block of the rank that sent it");
      }
      return holds_input_of((rank + ranks_ - static_cast<int>(slice)) % ranks_,
                            "does not hold what the rank before it sent");
    case Collective::barrier:
    case Collective::send_recv: return {};
  }
  return {};
}

}  // namespace nezha::schedule
