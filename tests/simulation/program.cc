// SimJob: what operations a program has, their inputs and results.
#include "simulation/sim_job.h"
#include "support/all_reduce_case.h"
#include "support/block_case.h"

namespace nezha::simulation {

namespace {

// Numbers of very different size: their sum depends on the order of additions.
uint64_t rough_bits(Dtype dtype, std::mt19937_64& random) {
  const double value = std::ldexp(1.0 + static_cast<double>(random() % 1000) / 1000,
                                  static_cast<int>(random() % 12) - 6);
  const double number = random() % 2 == 0 ? value : -value;
  if (dtype == Dtype::float64) return std::bit_cast<uint64_t>(number);
  return reference::encode(reference::format_of(dtype), number);
}

void make_rough(Bytes& bytes, Dtype dtype, std::mt19937_64& random) {
  const uint64_t count = bytes.size() / dtype_size(dtype);
  for (uint64_t i = 0; i < count; ++i) {
    reference::put_element(bytes.data(), dtype, i, rough_bits(dtype, random));
  }
}

}  // namespace

std::string OpSpec::name() const {
  std::string text = std::string(name_of(collective)) + " " + std::string(name_of(algorithm)) + " " +
                     std::string(name_of(dtype)) + " " + std::string(name_of(op)) + " x " +
                     std::to_string(count);
  for (const uint64_t each : counts) text += " " + std::to_string(each);
  for (const auto& row : matrix) {
    for (const uint64_t each : row) text += " " + std::to_string(each);
  }
  if (collective == Collective::send_recv) {
    return text + " from " + std::to_string(root) + " to " + std::to_string(receiver);
  }
  return text + " root " + std::to_string(root) + (in_place ? " in place" : "") +
         (rough ? " rough" : "");
}

Program::Program(int ranks, std::vector<OpSpec> specs, uint64_t seed) : ranks_(ranks) {
  for (OpSpec& spec : specs) {
    ops_.push_back({std::move(spec), {}, {}});
    fill(ops_.back(), seed++ * 7919);
  }
}

void Program::fill_blocks(Op& op, uint64_t seed) {
  nezha::testing::BlockCase blocks;
  blocks.collective = op.spec.collective;
  blocks.dtype = op.spec.dtype;
  blocks.op = op.spec.op;
  blocks.root = op.spec.root;
  blocks.matrix = op.spec.matrix;
  blocks.counts = op.spec.counts;
  if (blocks.counts.empty() && blocks.matrix.empty()) {
    const bool whole = op.spec.collective == Collective::reduce;
    blocks.counts.assign(whole ? 1 : static_cast<size_t>(ranks_), op.spec.count);
  }
  nezha::testing::fill(blocks, ranks_, seed);
  op.sources = std::move(blocks.sources);
  op.expected = std::move(blocks.expected);
}

void Program::fill(Op& op, uint64_t seed) {
  const auto ranks = static_cast<size_t>(ranks_);
  std::mt19937_64 random(seed);
  const size_t bytes = op.spec.count * dtype_size(op.spec.dtype);
  op.sources.assign(ranks, {});
  op.expected.assign(ranks, {});
  switch (op.spec.collective) {
    case Collective::barrier:
      return;
    case Collective::broadcast:
      op.sources.assign(ranks, Bytes(bytes, std::byte{0x11}));
      op.sources[static_cast<size_t>(op.spec.root)] = nezha::testing::random_bytes(random, bytes);
      op.expected.assign(ranks, op.sources[static_cast<size_t>(op.spec.root)]);
      return;
    case Collective::send_recv:
      op.sources[static_cast<size_t>(op.spec.root)] = nezha::testing::random_bytes(random, bytes);
      op.expected[static_cast<size_t>(op.spec.receiver)] =
          op.sources[static_cast<size_t>(op.spec.root)];
      return;
    case Collective::all_reduce: {
      nezha::testing::AllReduceCase whole;
      whole.dtype = op.spec.dtype;
      whole.op = op.spec.op;
      whole.count = op.spec.count;
      nezha::testing::fill(whole, ranks_, seed);
      op.sources = std::move(whole.inputs);
      op.expected.assign(ranks, whole.expected);
      break;
    }
    default:
      fill_blocks(op, seed);
  }
  if (!op.spec.rough) return;
  for (Bytes& source : op.sources) make_rough(source, op.spec.dtype, random);
}

}  // namespace nezha::simulation
