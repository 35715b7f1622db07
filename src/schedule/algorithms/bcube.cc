// BCube all-reduce: write the ranks as numbers whose digits have the prime factors of P as bases.
// In stage k the ranks that differ in digit k only, as many as the base, cut their range among
// themselves and each reduces its piece; the stages in reverse order gather the result. The address
// scheme is that of the BCube network, in which such ranks share a switch (Guo et al. 2009). A
// power of two gives the exchanges of recursive halving; a prime P is one direct exchange among
// all.
//
// A piece has several contributors but one order of addition: every contributor has a round of its
// own, nearest lower digit first, and frames that come early wait.
#include <algorithm>
#include <vector>

#include "schedule/algorithms/algorithms.h"
#include "schedule/builder.h"

namespace nezha::schedule::algorithms {
namespace {

// Prime factors, largest first, so that the first and longest stage moves the smallest pieces.
std::vector<int> bases_of(int world_size) {
  std::vector<int> bases;
  int rest = world_size;
  for (int factor = 2; rest > 1; ++factor) {
    for (; rest % factor == 0; rest /= factor) bases.push_back(factor);
  }
  std::reverse(bases.begin(), bases.end());
  return bases;
}

// One digit of this rank: the group it belongs to and how the group cuts its range.
struct Group {
  int rank;
  int base;
  int stride;      // distance in ranks between neighbours, and parts in a piece
  uint32_t begin;  // first part of the range

  int digit() const { return rank / stride % base; }
  // The digit `step` after (before, if negative) this rank's.
  int digit_at(int step) const { return (digit() + step + base) % base; }
  int peer(int other) const { return rank + (other - digit()) * stride; }
  Parts piece(int other) const {
    const uint32_t first = begin + static_cast<uint32_t>(other * stride);
    return {first, first + static_cast<uint32_t>(stride)};
  }
};

std::vector<Group> groups_of(int rank, int world_size) {
  std::vector<Group> groups;
  int stride = world_size;
  uint32_t begin = 0;
  for (const int base : bases_of(world_size)) {
    stride /= base;
    groups.push_back({rank, base, stride, begin});
    begin = groups.back().piece(groups.back().digit()).begin;
  }
  return groups;
}

void scatter(Builder& builder, const Group& group, Tag tag, bool last_stage) {
  builder.next_round();
  for (int step = 1; step < group.base; ++step) {
    const int other = group.digit_at(step);
    builder.send(group.peer(other), group.piece(other), tag);
  }
  for (int step = 1; step < group.base; ++step) {
    const bool completes = last_stage && step + 1 == group.base;
    builder.recv_reduce(group.peer(group.digit_at(-step)), group.piece(group.digit()), tag,
                        completes ? Completes::yes : Completes::no);
    builder.next_round();
  }
}

void gather(Builder& builder, const Group& group, Tag tag) {
  builder.next_round();
  for (int step = 1; step < group.base; ++step) {
    builder.send(group.peer(group.digit_at(step)), group.piece(group.digit()), tag);
  }
  for (int step = 1; step < group.base; ++step) {
    const int other = group.digit_at(-step);
    builder.recv(group.peer(other), group.piece(other), tag);
  }
}

Program cube_program(int rank, int world_size) {
  const std::vector<Group> groups = groups_of(rank, world_size);
  const int stages = static_cast<int>(groups.size());
  Builder builder(static_cast<uint32_t>(world_size));
  for (int stage = 0; stage < stages; ++stage) {
    scatter(builder, groups[stage], {stage}, stage + 1 == stages);
  }
  for (int stage = stages - 1; stage >= 0; --stage) {
    gather(builder, groups[stage], {2 * stages - 1 - stage});
  }
  return builder.finish();
}

}  // namespace

Schedule bcube(int rank, int world_size, int root) {
  Schedule schedule{Collective::all_reduce, Algorithm::bcube, rank, world_size, root, {}};
  schedule.programs.push_back(world_size == 1 ? lone_rank_program({0, 1})
                                              : cube_program(rank, world_size));
  return schedule;
}

Shape bcube_shape(int world_size) {
  // With a base above two an owner adds its own share first and the others' after it, so the order
  // depends on the owner. Two operands have only one order.
  const std::vector<int> bases = bases_of(world_size);
  const bool above_two = std::any_of(bases.begin(), bases.end(), [](int base) { return base > 2; });
  return {1, static_cast<uint32_t>(world_size), true, above_two};
}

CostTerms bcube_cost(int world_size) {
  const double p = world_size;
  double messages = 0;
  for (const int base : bases_of(world_size)) messages += base - 1;
  return {2 * messages, 2 * (p - 1) / p, (p - 1) / p, kExchangeLinkUse};
}

}  // namespace nezha::schedule::algorithms
