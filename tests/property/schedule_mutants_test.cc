// The verifier and the rehearsal must notice when something is wrong: seeded mutants of every
// schedule, and of the engine's rules, are all caught.
//
// Mutants that change nothing are left out by construction, each for a reason:
//   - order of the steps within a round: they are started together anyway
//   - order of reductions in neighbouring rounds that only one rank, the owner, computes (bcube)
//   - `peer_first` where only one rank computes (all but the core of recursive doubling): all ranks
//     still get that one rank's bits
//   - a private copy that is not needed: costs time only
//   - a fresh identity given to both ends of a transfer: only a name
//   - the programs of two slices of an all-reduce exchanged on all ranks: all slices are alike
//   - order of rounds of Bruck's all-gather of which the later sends nothing that the earlier brings
//   - workspace or output for a send that reads the input
//   - a dropped or late message of dissemination where P is no power of two: other messages tell
//     the same
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "proof/links.h"
#include "proof/verifier.h"
#include "proofs/rehearsal.h"
#include "proofs/rehearsal_memory.h"
#include "property/schedule_worlds.h"
#include "schedule/builder.h"

namespace nezha::schedule {
namespace {

using Random = std::mt19937_64;

size_t pick(Random& random, size_t count) { return random() % count; }

struct Target {
  int rank = 0;
  uint32_t slice = 0;
  uint32_t step = 0;
};

Program& program_of(World& world, const Target& target) {
  return world[target.rank].programs[target.slice];
}
Step& step_of(World& world, const Target& target) {
  return program_of(world, target).steps[target.step];
}

// A step of some rank that satisfies `wanted`; false when there is none.
bool find_step(World& world, Random& random, const std::function<bool(const Step&)>& wanted,
               Target& found) {
  std::vector<Target> candidates;
  for (const Schedule& schedule : world) {
    for (uint32_t slice = 0; slice < schedule.slices(); ++slice) {
      for (uint32_t i = 0; i < schedule.programs[slice].steps.size(); ++i) {
        if (wanted(schedule.programs[slice].steps[i])) {
          candidates.push_back({schedule.rank, slice, i});
        }
      }
    }
  }
  if (candidates.empty()) return false;
  found = candidates[pick(random, candidates.size())];
  return true;
}

Target other_end(const World& world, const Target& target) {
  const Result<SliceLinks> links = link(world, target.slice);
  const Place& place = links.value().other_end[target.rank][target.step];
  return {place.rank, target.slice, place.step};
}

void erase_step(World& world, const Target& target) {
  Program& program = program_of(world, target);
  program.steps.erase(program.steps.begin() + target.step);
  std::vector<uint32_t> ends;
  for (uint32_t end : program.round_ends) {
    if (end > target.step) --end;
    if (end > (ends.empty() ? 0 : ends.back())) ends.push_back(end);
  }
  program.round_ends = ends;
}

bool is_send(const Step& step) { return step.kind == StepKind::send; }
bool is_reduction(const Step& step) { return step.kind == StepKind::recv_reduce; }
bool is_copy(const Step& step) { return step.kind == StepKind::copy; }
bool is_transfer(const Step& step) { return !is_copy(step); }
bool has_bytes(const Step& step) { return step.part_begin < step.part_end; }

// Every message of a dissemination barrier tells something new only then.
bool has_spare_messages(const World& world) {
  return world[0].algorithm == Algorithm::dissemination && !std::has_single_bit(world.size());
}

bool drop_step(World& world, Random& random) {
  Target target;
  if (!find_step(world, random, [](const Step&) { return true; }, target)) return false;
  erase_step(world, target);
  return true;
}

bool drop_transfer(World& world, Random& random) {
  Target target;
  if (has_spare_messages(world) || !find_step(world, random, is_send, target)) return false;
  const Target other = other_end(world, target);
  erase_step(world, target);
  erase_step(world, other);
  return true;
}

bool retarget(World& world, Random& random) {
  Target target;
  if (world.size() < 3 || !find_step(world, random, [](const Step&) { return true; }, target)) {
    return false;
  }
  Step& step = step_of(world, target);
  const int old = step.peer;
  while (step.peer == old || step.peer == target.rank) {
    step.peer = static_cast<int>(pick(random, world.size()));
  }
  return true;
}

void shift_parts(Step& step, uint32_t parts) {
  const bool up = step.part_end < parts;
  step.part_begin += up ? 1 : -1;
  step.part_end += up ? 1 : -1;
}

bool is_partial(const World& world, const Target& target) {
  const Program& program = world[target.rank].programs[target.slice];
  const Step& step = program.steps[target.step];
  return step.part_end - step.part_begin < program.parts;
}

bool wrong_part(World& world, Random& random) {
  Target target;
  if (!find_step(world, random, has_bytes, target) || !is_partial(world, target)) return false;
  shift_parts(step_of(world, target), program_of(world, target).parts);
  return true;
}

bool moves_bytes(const Step& step) { return is_transfer(step) && has_bytes(step); }

bool wrong_part_at_both_ends(World& world, Random& random) {
  Target target;
  if (!find_step(world, random, moves_bytes, target) || !is_partial(world, target)) return false;
  const Target other = other_end(world, target);
  shift_parts(step_of(world, target), program_of(world, target).parts);
  shift_parts(step_of(world, other), program_of(world, target).parts);
  return true;
}

bool wrong_stage(World& world, Random& random) {
  Target target;
  if (!find_step(world, random, is_transfer, target)) return false;
  ++step_of(world, target).stage;
  return true;
}

bool wrong_slot(World& world, Random& random) {
  Target target;
  if (!find_step(world, random, is_transfer, target)) return false;
  ++step_of(world, target).slot;
  return true;
}

bool has_same_name(const Step& a, const Step& b) { return a.stage == b.stage && a.slot == b.slot; }

// Two transfers of one pair of ranks under one name.
bool same_identity(World& world, Random& random) {
  Target target;
  if (!find_step(world, random, is_send, target)) return false;
  const Step first = step_of(world, target);
  for (Step& second : program_of(world, target).steps) {
    if (!is_send(second) || second.peer != first.peer || has_same_name(second, first)) continue;
    Target renamed = target;
    renamed.step = static_cast<uint32_t>(&second - program_of(world, target).steps.data());
    Step& receipt = step_of(world, other_end(world, renamed));
    receipt.stage = second.stage = first.stage;
    receipt.slot = second.slot = first.slot;
    return true;
  }
  return false;
}

bool live_source(World& world, Random& random) {
  Target target;
  if (!find_step(world, random, [](const Step& step) { return step.copy_source; }, target)) {
    return false;
  }
  step_of(world, target).copy_source = false;
  return true;
}

bool never_final(World& world, Random& random) {
  Target target;
  if (!find_step(world, random, [](const Step& step) { return step.final; }, target)) return false;
  step_of(world, target).final = false;
  return true;
}

bool final_too_early(World& world, Random& random) {
  Target target;
  const auto wanted = [](const Step& step) { return is_reduction(step) && !step.final; };
  if (!find_step(world, random, wanted, target)) return false;
  step_of(world, target).final = true;
  return true;
}

bool other_source(World& world, Random& random) {
  Target target;
  const auto wanted = [](const Step& step) {
    return has_bytes(step) && (is_send(step) || is_reduction(step) || is_copy(step));
  };
  if (!find_step(world, random, wanted, target)) return false;
  Step& step = step_of(world, target);
  step.from_input = !step.from_input;
  return true;
}

// The output for the workspace, or the other way round.
bool other_memory(World& world, Random& random) {
  Target target;
  const auto wanted = [](const Step& step) {
    return has_bytes(step) && !(is_send(step) && step.from_input);
  };
  if (!find_step(world, random, wanted, target)) return false;
  step_of(world, target).in_workspace = !step_of(world, target).in_workspace;
  return true;
}

// Somebody else's block: all ranks run the programs of two slices the wrong way round.
bool wrong_slice(World& world, Random& random) {
  const Collective collective = world[0].collective;
  const uint32_t slices = world[0].slices();
  if (slices < 2 || collective == Collective::all_reduce) return false;
  const size_t first = pick(random, slices);
  const size_t second = (first + 1 + pick(random, slices - 1)) % slices;
  for (Schedule& schedule : world) {
    std::swap(schedule.programs[first], schedule.programs[second]);
  }
  return true;
}

// The operation of another root.
bool wrong_root(World& world, Random& random) {
  if (!has_root(world[0].collective)) return false;
  const int old = world[0].root;
  while (world[0].root == old) world[0].root = static_cast<int>(pick(random, world.size()));
  for (Schedule& schedule : world) schedule.root = world[0].root;
  return true;
}

bool reduce_for_replace(World& world, Random& random) {
  Target target;
  const auto wanted = [](const Step& step) { return receives(step) && has_bytes(step); };
  if (!find_step(world, random, wanted, target)) return false;
  Step& step = step_of(world, target);
  const bool reduces = is_reduction(step);
  step.kind = reduces ? StepKind::recv : StepKind::recv_reduce;
  step.from_input = step.peer_first = step.final = false;
  return true;
}

bool other_operand_order(World& world, Random& random) {
  if (world[0].algorithm != Algorithm::recursive_doubling) return false;
  Target target;
  const auto wanted = [](const Step& step) { return is_reduction(step) && step.stage > 0; };
  if (!find_step(world, random, wanted, target)) return false;
  step_of(world, target).peer_first = !step_of(world, target).peer_first;
  return true;
}

// Both messages of a transfer once more: a contribution counted twice.
bool reduce_twice(World& world, Random& random) {
  Target target;
  if (!find_step(world, random, is_reduction, target)) return false;
  const auto repeat = [&](const Target& at) {
    Program& program = program_of(world, at);
    Step copy = program.steps[at.step];
    copy.slot += 1;
    copy.from_input = is_send(copy) && copy.from_input;
    uint32_t round = 0;
    while (program.round_ends[round] <= at.step) ++round;
    const uint32_t end = program.round_ends[round];
    // A send beside the original, a reduction in a round of its own after it.
    program.steps.insert(program.steps.begin() + (is_send(copy) ? at.step : end), copy);
    for (size_t i = round; i < program.round_ends.size(); ++i) ++program.round_ends[i];
    if (!is_send(copy)) program.round_ends.insert(program.round_ends.begin() + round, end);
  };
  const Target other = other_end(world, target);
  repeat(target);
  repeat(other);
  return true;
}

bool only_orders_additions(std::span<const Step> first, std::span<const Step> second) {
  return first.size() == 1 && second.size() == 1 && is_reduction(first[0]) &&
         is_reduction(second[0]) && !first[0].final && !second[0].final &&
         first[0].from_input == second[0].from_input;
}

// The last stage of Bruck's all-gather may move blocks that were there before the one before.
bool needs_nothing_of(std::span<const Step> first, std::span<const Step> second) {
  const auto is_needed = [&](const Step& written) {
    return std::any_of(second.begin(), second.end(), [&](const Step& step) {
      return is_send(step) && std::max(step.part_begin, written.part_begin) <
                                  std::min(step.part_end, written.part_end);
    });
  };
  return std::none_of(first.begin(), first.end(),
                      [&](const Step& step) { return !is_send(step) && is_needed(step); });
}

bool swap_rounds(World& world, Random& random) {
  if (has_spare_messages(world)) return false;
  const Target target{static_cast<int>(pick(random, world.size())),
                      static_cast<uint32_t>(pick(random, world[0].slices())), 0};
  Program& program = program_of(world, target);
  if (program.round_count() < 2) return false;
  const auto first = static_cast<uint32_t>(pick(random, program.round_count() - 1));
  if (only_orders_additions(program.round(first), program.round(first + 1))) return false;
  if (world[0].algorithm == Algorithm::bruck &&
      needs_nothing_of(program.round(first), program.round(first + 1))) {
    return false;
  }
  const uint32_t begin = first == 0 ? 0 : program.round_ends[first - 1];
  const uint32_t middle = program.round_ends[first];
  const uint32_t end = program.round_ends[first + 1];
  std::rotate(program.steps.begin() + begin, program.steps.begin() + middle,
              program.steps.begin() + end);
  program.round_ends[first] = begin + (end - middle);
  return true;
}

bool merge_rounds(World& world, Random& random) {
  if (has_spare_messages(world)) return false;
  const Target target{static_cast<int>(pick(random, world.size())),
                      static_cast<uint32_t>(pick(random, world[0].slices())), 0};
  Program& program = program_of(world, target);
  if (program.round_count() < 2) return false;
  program.round_ends.erase(program.round_ends.begin() +
                           static_cast<long>(pick(random, program.round_count() - 1)));
  return true;
}

bool wrong_rank(World& world, Random& random) {
  if (world.size() < 2) return false;
  const size_t first = pick(random, world.size() - 1);
  std::swap(world[first], world[first + 1]);
  return true;
}

struct Mutation {
  const char* name;
  bool (*apply)(World& world, Random& random);  // false: not applicable, world unchanged
};

constexpr Mutation kMutations[] = {
    {"drop_step", drop_step},
    {"drop_transfer", drop_transfer},
    {"retarget", retarget},
    {"wrong_part", wrong_part},
    {"wrong_part_at_both_ends", wrong_part_at_both_ends},
    {"wrong_stage", wrong_stage},
    {"wrong_slot", wrong_slot},
    {"same_identity", same_identity},
    {"live_source", live_source},
    {"never_final", never_final},
    {"final_too_early", final_too_early},
    {"other_source", other_source},
    {"other_memory", other_memory},
    {"wrong_slice", wrong_slice},
    {"wrong_root", wrong_root},
    {"reduce_for_replace", reduce_for_replace},
    {"other_operand_order", other_operand_order},
    {"reduce_twice", reduce_twice},
    {"swap_rounds", swap_rounds},
    {"merge_rounds", merge_rounds},
    {"wrong_rank", wrong_rank},
};

class Mutants : public ::testing::TestWithParam<Mutation> {};

TEST_P(Mutants, AreAllCaught) {
  int applied = 0;
  for (const AlgorithmEntry& entry : catalog()) {
    for (const int world_size : {2, 3, 4, 5, 6, 7, 8, 9, 12, 16}) {
      const World original = make_world(entry, world_size, world_size / 2);
      for (uint64_t seed = 0; seed < 20; ++seed) {
        World mutant = original;
        Random random(seed);
        if (!GetParam().apply(mutant, random)) continue;
        ASSERT_NE(mutant, original);
        ++applied;
        EXPECT_FALSE(verify(mutant)) << describe_world(original) << ", seed " << seed;
      }
    }
  }
  EXPECT_GT(applied, 100);
}

std::string mutation_name(const ::testing::TestParamInfo<Mutation>& mutation) {
  return mutation.param.name;
}

INSTANTIATE_TEST_SUITE_P(Schedule, Mutants, ::testing::ValuesIn(kMutations), mutation_name);

// How many of 40 rehearsals fail.
int failures(const World& world, RehearsalOptions options) {
  int failed = 0;
  for (options.seed = 0; options.seed < 40; ++options.seed) {
    failed += rehearse(world, options).is_ok() ? 0 : 1;
  }
  return failed;
}

World five_ranks(Collective collective, Algorithm algorithm) {
  return make_world(*find_algorithm(collective, algorithm), 5, 0);
}

int failures(Algorithm algorithm, const RehearsalOptions& options) {
  return failures(five_ranks(Collective::all_reduce, algorithm), options);
}

RehearsalOptions busy(uint32_t window, double credit) {
  RehearsalOptions options;
  options.chunks_per_slice = 4;
  options.window = window;
  options.credit = credit;
  options.resend_chance = 0.3;
  return options;
}

TEST(EngineRuleMutants, NoneIsNeededForTheOriginal) {
  EXPECT_EQ(failures(Algorithm::ring, busy(8, 1)), 0);
  EXPECT_EQ(failures(Algorithm::recursive_doubling, busy(2, 2)), 0);
  EXPECT_EQ(failures(Algorithm::halving_doubling, busy(2, 2)), 0);
  EXPECT_EQ(failures(Algorithm::bcube, busy(2, 2)), 0);
}

TEST(EngineRuleMutants, AppliedDuplicatesAreCaught) {
  RehearsalOptions options = busy(8, 8);
  options.rules.drops_duplicates = false;
  EXPECT_GT(failures(Algorithm::ring, options), 0);
  EXPECT_GT(failures(Algorithm::recursive_doubling, options), 0);
}

TEST(EngineRuleMutants, CreditReturnedBeforeTheReductionIsCaught) {
  RehearsalOptions options = busy(8, 1);
  options.rules.credits_on_use = false;
  EXPECT_GT(failures(Algorithm::ring, options), 0);
}

TEST(EngineRuleMutants, MemoryGivenBackBeforeDeliveryIsCaught) {
  RehearsalOptions options = busy(8, 8);
  options.rules.retains_until_delivered = false;
  EXPECT_GT(failures(Algorithm::ring, options), 0);
  EXPECT_GT(failures(Algorithm::halving_doubling, options), 0);
}

// A workspace is somebody else's when its chunk is finished.
TEST(EngineRuleMutants, WorkspacesGivenBackBeforeDeliveryAreCaught) {
  RehearsalOptions options = busy(8, 8);
  options.rules.retains_until_delivered = false;
  for (const World& world : {five_ranks(Collective::reduce_scatter, Algorithm::ring),
                             five_ranks(Collective::reduce_scatter, Algorithm::halving_doubling),
                             five_ranks(Collective::reduce, Algorithm::chain),
                             five_ranks(Collective::reduce, Algorithm::tree),
                             five_ranks(Collective::gather, Algorithm::tree),
                             five_ranks(Collective::scatter, Algorithm::tree)}) {
    EXPECT_GT(failures(world, options), 0) << describe_world(world);
    options.rules.retains_until_delivered = true;
    EXPECT_EQ(failures(world, options), 0) << describe_world(world);
    options.rules.retains_until_delivered = false;
  }
}

TEST(RehearsalMemory, GivesAWorkspaceAwayWithItsChunk) {
  const World world = five_ranks(Collective::scatter, Algorithm::tree);
  const Result<SliceLinks> links = link(world, 0);
  Result<Contract> contract = Contract::of(world);
  ASSERT_TRUE(links && contract);
  RehearsalMemory memory({&links.value(), 1}, *contract, 1);
  const Program& inner = world[2].programs[0];  // recv; send, keep
  memory.land(2, 0, inner.steps[0], {7, 8});
  EXPECT_EQ(memory.read(2, 0, inner.steps[1]), Payload{8});
  memory.drop_workspace(2, 0);
  EXPECT_EQ(memory.read(2, 0, inner.steps[1]), Payload{ExpressionTable::kNothing});
}

TEST(EngineRuleMutants, ChunksOpenedInAnyOrderAreCaught) {
  RehearsalOptions options = busy(1, 1);
  options.rules.admits_in_order = false;
  EXPECT_GT(failures(Algorithm::recursive_doubling, options), 0);
}

// Two ranks that exchange their halves one after the other: an honest all-reduce in which one
// message of a pair waits for another, so that credit for one message is not enough.
World two_exchanges() {
  World world;
  for (int rank = 0; rank < 2; ++rank) {
    const Operands order = rank == 0 ? Operands::own_first : Operands::peer_first;
    Builder builder(2);
    for (uint32_t half = 0; half < 2; ++half) {
      const Tag tag{static_cast<int>(half)};
      builder.next_round().send(1 - rank, {half, half + 1}, tag, Source::copied);
      builder.recv_reduce(1 - rank, {half, half + 1}, tag, Completes::yes, order);
    }
    world.push_back({Collective::all_reduce, Algorithm::bcube, rank, 2, 0, {builder.finish()}});
  }
  return world;
}

TEST(EngineRuleMutants, TooLittleCreditIsCaught) {
  World world = two_exchanges();
  const Result<Proof> proof = verify(world);
  ASSERT_TRUE(proof) << proof.status().to_string();
  EXPECT_FALSE(proof.value().consumes_on_arrival);
  EXPECT_EQ(credit_needed(proof.value(), 4), 4.0);
  EXPECT_EQ(failures(world, busy(4, credit_needed(proof.value(), 4))), 0);
  EXPECT_GT(failures(world, busy(4, proof.value().largest_message)), 0);
}

TEST(EngineRuleMutants, LiveSourcesOfRecursiveDoublingAreCaughtHereToo) {
  World world = make_world(
      *find_algorithm(Collective::all_reduce, Algorithm::recursive_doubling), 5, 0);
  for (Schedule& schedule : world) {
    for (Step& step : schedule.programs[0].steps) step.copy_source = false;
  }
  EXPECT_GT(failures(world, busy(2, 2)), 0);
}

}  // namespace
}  // namespace nezha::schedule
