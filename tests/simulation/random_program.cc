// Scenario: random programs of operations.
#include "schedule/catalog.h"
#include "schedule/plan.h"
#include "simulation/scenario.h"

namespace nezha::simulation {

namespace {

uint64_t pick(std::mt19937_64& random, uint64_t below) { return random() % below; }

// Lengths around the borders of chunks (4096 bytes and less), and none at all.
uint64_t random_count(std::mt19937_64& random) {
  constexpr uint64_t kCounts[] = {0, 1, 2, 3, 7, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 4095};
  if (pick(random, 2) == 0) return kCounts[pick(random, std::size(kCounts))];
  return pick(random, pick(random, 4) == 0 ? 12'000 : 3'000);
}

Algorithm random_algorithm(std::mt19937_64& random, Collective collective) {
  std::vector<Algorithm> found = {Algorithm::automatic};
  for (const schedule::AlgorithmEntry& entry : schedule::catalog()) {
    if (entry.collective == collective) found.push_back(entry.algorithm);
  }
  return found[pick(random, found.size())];
}

void choose_reduction(OpSpec& spec, std::mt19937_64& random) {
  do {
    spec.dtype = static_cast<Dtype>(pick(random, kDtypeCount));
    spec.op = static_cast<ReduceOp>(pick(random, kReduceOpCount));
  } while (!reduce_supported(spec.dtype, spec.op));
  const bool is_float = static_cast<int>(spec.dtype) <= 3;
  // Sums show best what was added twice or not at all.
  if (pick(random, 2) == 0) spec.op = ReduceOp::sum;
  spec.rough = is_float && spec.op == ReduceOp::sum && pick(random, 2) == 0;
}

OpSpec random_op(std::mt19937_64& random, int ranks) {
  OpSpec spec;
  const auto size = static_cast<size_t>(ranks);
  // Half of them are all_reduce: the most to go wrong.
  spec.collective = pick(random, 2) == 0 ? Collective::all_reduce
                                         : static_cast<Collective>(pick(random, kCollectiveCount));
  spec.root = static_cast<int>(pick(random, size));
  spec.dtype = static_cast<Dtype>(pick(random, kDtypeCount));
  spec.in_place = pick(random, 3) == 0;
  spec.count = random_count(random);
  switch (spec.collective) {
    case Collective::all_reduce:
    case Collective::reduce:
    case Collective::reduce_scatter:
      choose_reduction(spec, random);
      break;
    case Collective::barrier:
      spec.count = 0;
      break;
    case Collective::send_recv:
      spec.receiver = (spec.root + 1 + static_cast<int>(pick(random, size - 1))) % ranks;
      spec.in_place = false;
      return spec;
    case Collective::all_to_all:
      spec.matrix.assign(size, std::vector<uint64_t>(size, pick(random, 700)));
      spec.count = spec.matrix[0][0] * size;
      spec.in_place = false;
      break;
    case Collective::all_to_all_v:
      spec.matrix.assign(size, std::vector<uint64_t>(size));
      for (auto& row : spec.matrix) {
        for (uint64_t& count : row) count = pick(random, 3) == 0 ? 0 : pick(random, 900);
      }
      spec.in_place = false;
      break;
    default: break;
  }
  const bool takes_counts =
      spec.collective == Collective::all_gather || spec.collective == Collective::reduce_scatter;
  if (takes_counts && pick(random, 2) == 0) {
    for (int rank = 0; rank < ranks; ++rank) spec.counts.push_back(pick(random, 1500));
    spec.count = 0;
  }
  spec.algorithm = random_algorithm(random, spec.collective);
  return spec;
}

// Some algorithms pass on whole vectors in one message, and no message is longer than the credit.
bool is_allowed(const OpSpec& spec, int ranks, const WorldOptions& world) {
  if (schedule::find_algorithm(spec.collective, spec.algorithm) == nullptr) return true;
  schedule::PlanRequest request;
  request.collective = spec.collective;
  request.dtype = spec.dtype;
  request.world_size = ranks;
  request.algorithm = spec.algorithm;
  request.chunk_bytes_max = world.chunk_bytes;
  request.credit_bytes = world.credit_bytes;
  // No less than the vector and its longest block can be.
  request.longest_block = spec.count;
  for (const uint64_t count : spec.counts) {
    request.longest_block = std::max(request.longest_block, count);
  }
  request.count = request.longest_block * static_cast<uint64_t>(ranks);
  return schedule::make_plan(request, schedule::CostTable()).is_ok() &&
         schedule::build(spec.collective, spec.algorithm, 0, ranks, spec.root).is_ok();
}

}  // namespace

std::vector<OpSpec> random_program(std::mt19937_64& random, const WorldOptions& world,
                                   int length) {
  std::vector<OpSpec> ops;
  while (static_cast<int>(ops.size()) < length) {
    OpSpec spec = random_op(random, world.ranks);
    if (!is_allowed(spec, world.ranks, world)) spec.algorithm = Algorithm::automatic;
    ops.push_back(std::move(spec));
  }
  return ops;
}

}  // namespace nezha::simulation
