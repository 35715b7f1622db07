#include "simulation/sim_job.h"

#include <algorithm>
#include <cstring>

#include "support/block_case.h"

namespace nezha::simulation {

using nezha::testing::Guarded;

namespace {

constexpr std::byte kUnwritten{0x5A};
constexpr std::byte kSpoiled{0xEE};

size_t begin_of(const OpSpec& spec, int rank) {
  size_t begin = 0;
  for (int i = 0; i < rank; ++i) {
    begin += spec.counts.empty() ? spec.count : spec.counts[static_cast<size_t>(i)];
  }
  return begin * dtype_size(spec.dtype);
}

uint64_t total_of(const OpSpec& spec, int rank, size_t ranks) {
  if (!spec.matrix.empty()) {
    uint64_t total = 0;
    for (const uint64_t count : spec.matrix[static_cast<size_t>(rank)]) total += count;
    return total;
  }
  switch (spec.collective) {
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::gather:
    case Collective::scatter: {
      if (spec.counts.empty()) return spec.count * ranks;
      uint64_t total = 0;
      for (const uint64_t count : spec.counts) total += count;
      return total;
    }
    default: return spec.collective == Collective::barrier ? 0 : spec.count;
  }
}

void spoil(Guarded& memory, size_t size) { std::fill_n(memory.data(), size, kSpoiled); }

bool is_spoiled(const Guarded& memory, size_t size) {
  return std::all_of(memory.data(), memory.data() + size,
                     [](std::byte byte) { return byte == kSpoiled; });
}

}  // namespace

// The buffers of one rank in one operation.
struct SimJob::Place {
  Guarded input, output;
  size_t input_size = 0, output_size = 0;
  std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::vector<uint64_t> received_counts;  // all_to_all_v
  engine::Work work;
  Outcome outcome;
};

SimJob::SimJob(SimWorld& world, const Program& program, const JobOptions& options)
    : world_(world),
      program_(program),
      options_(options),
      ranks_(static_cast<size_t>(program.ranks())),
      random_(options.seed),
      state_(ranks_) {
  for (size_t op = 0; op < program.ops().size(); ++op) {
    for (int rank = 0; rank < program.ranks(); ++rank) {
      places_.push_back(std::make_unique<Place>());
      place(op, rank);
    }
  }
  world_.on_ran = [this](int rank) {
    scratch_peak_ = std::max(scratch_peak_, world_.engine(rank).pool().bytes_in_use());
    collect(rank);
    pump(rank);
  };
  for (int rank = 0; rank < program.ranks(); ++rank) {
    world_.at_rank(world_.now(), rank, [] {});
  }
}

// The engines let go of the buffers, also when a run ends in the middle.
SimJob::~SimJob() {
  world_.on_ran = nullptr;
  if (is_over()) return;
  for (int rank = 0; rank < program_.ranks(); ++rank) {
    if (!world_.is_alive(rank)) continue;
    world_.engine(rank).failures().fail(world_.group(rank), error(Code::aborted, "the run ended"), false);
    world_.engine(rank).run(world_.now());
  }
}

const SimJob::Outcome& SimJob::outcome(size_t op, int rank) const { return at(op, rank).outcome; }

double SimJob::mean_s(size_t first) const {
  Nanoseconds last = 0;
  for (size_t rank = 0; rank < ranks_; ++rank) {
    last = std::max(last, outcome(ops() - 1, static_cast<int>(rank)).ended_at);
  }
  const auto operations = static_cast<double>(ops() - first);
  return static_cast<double>(last - outcome(first, 0).begun_at) / kSecond / operations;
}

bool SimJob::takes_part(size_t op, int rank) const {
  const OpSpec& spec = program_.ops()[op].spec;
  return spec.collective != Collective::send_recv || rank == spec.root || rank == spec.receiver;
}

// Where the input and the output are: the same memory when it is in place.
void SimJob::place(size_t op, int rank) {
  const Program::Op& the = program_.ops()[op];
  const OpSpec& spec = the.spec;
  Place& here = at(op, rank);
  const Bytes& source = the.sources[static_cast<size_t>(rank)];
  const Bytes& expected = the.expected[static_cast<size_t>(rank)];
  const bool rooted = spec.collective == Collective::reduce || spec.collective == Collective::gather ||
                      spec.collective == Collective::scatter;
  const bool in_place = spec.in_place && (!rooted || rank == spec.root);
  const bool gathers =
      spec.collective == Collective::all_gather || spec.collective == Collective::gather;
  const bool spreads =
      spec.collective == Collective::reduce_scatter || spec.collective == Collective::scatter;
  here.input_size = source.size();
  here.output_size = expected.size();
  here.input.reset(rank % 2 == 0 ? 0 : 4, source);
  here.output.reset(0, Bytes(expected.size(), kUnwritten));
  here.in = here.input.data();
  here.out = here.output.data();
  if (spec.collective == Collective::broadcast) here.out = here.in;
  if (!in_place) return;
  if (gathers) {
    here.in = here.out + begin_of(spec, rank);
    std::copy(source.begin(), source.end(), here.in);
  } else {
    here.out = spreads ? here.in + begin_of(spec, rank) : here.in;
  }
}

int SimJob::current(int rank) const {
  for (size_t op = 0; op < program_.ops().size(); ++op) {
    if (takes_part(op, rank) && !at(op, rank).outcome.done) return static_cast<int>(op);
  }
  return -1;
}

void SimJob::begin(size_t op, int rank) {
  const OpSpec& spec = program_.ops()[op].spec;
  Place& here = at(op, rank);
  here.outcome.begun = true;
  here.outcome.begun_at = world_.now();
  const Nanoseconds deadline = world_.now() + options_.deadline;
  Status begun;
  if (spec.collective == Collective::send_recv) {
    engine::MessageRequest request;
    request.is_send = rank == spec.root;
    request.buffer = request.is_send ? here.in : here.out;
    request.count = spec.count;
    request.dtype = spec.dtype;
    request.peer = request.is_send ? spec.receiver : spec.root;
    request.tag = static_cast<uint32_t>(op);
    request.deadline = deadline;
    begun = world_.engine(rank).submit_message(world_.group(rank), request, here.work);
  } else {
    engine::OpRequest request;
    request.collective = spec.collective;
    request.in = here.in;
    request.out = here.out;
    request.count = total_of(spec, rank, ranks_);
    if (!spec.counts.empty()) request.input_counts = request.output_counts = spec.counts;
    if (spec.collective == Collective::all_to_all_v) {
      for (const auto& row : spec.matrix) {
        here.received_counts.push_back(row[static_cast<size_t>(rank)]);
      }
      request.input_counts = spec.matrix[static_cast<size_t>(rank)];
      request.output_counts = here.received_counts;
    }
    request.dtype = spec.dtype;
    request.op = spec.op;
    request.factor = spec.op == ReduceOp::premul_sum ? rank % 3 + 1 : 1;
    request.root = spec.root;
    request.algorithm = spec.algorithm;
    request.deadline = deadline;
    begun = world_.engine(rank).submit(world_.group(rank), request, here.work);
  }
  if (!begun.is_ok()) here.work.complete(begun);
}

// The next operation, after a while.
void SimJob::begin_later(int rank, Nanoseconds think) {
  state_[static_cast<size_t>(rank)].waiting = true;
  world_.at_rank(world_.now() + think, rank, [this, rank] {
    Rank& self = state_[static_cast<size_t>(rank)];
    self.waiting = false;
    if (!self.end.is_ok()) return;
    ++self.outstanding;
    begin(self.next++, rank);
  });
}

// Begins what may begin.
void SimJob::pump(int rank) {
  Rank& self = state_[static_cast<size_t>(rank)];
  const auto limit = static_cast<size_t>(options_.outstanding);
  while (!self.waiting && self.end.is_ok() && self.next < program_.ops().size() &&
         self.outstanding < limit) {
    const size_t op = self.next;
    if (!takes_part(op, rank)) {
      ++self.next;
      continue;
    }
    if (rank == options_.late_rank) return begin_later(rank, options_.late_by);
    if (options_.think_max > 0 && !at(op, rank).outcome.begun) {
      const auto think = static_cast<Nanoseconds>(random_() % static_cast<uint64_t>(options_.think_max));
      if (think > options_.think_max / 2) return begin_later(rank, think);
    }
    ++self.outstanding;
    ++self.next;
    begin(op, rank);
    collect(rank);
  }
}

void SimJob::collect(int rank) {
  Rank& self = state_[static_cast<size_t>(rank)];
  for (size_t op = 0; op < self.next; ++op) {
    Place& here = at(op, rank);
    if (!here.outcome.begun || here.outcome.done || !here.work.is_done()) continue;
    here.outcome.done = true;
    here.outcome.status = here.work.status();
    here.outcome.ended_at = world_.now();
    longest_ = std::max(longest_, here.outcome.ended_at - here.outcome.begun_at);
    here.outcome.result.assign(here.out, here.out + here.output_size);
    if (self.end.is_ok()) self.end = here.outcome.status;
    --self.outstanding;
    spoil(here.input, here.input_size);
    spoil(here.output, here.output_size);
  }
}

bool SimJob::is_over() const {
  for (int rank = 0; rank < program_.ranks(); ++rank) {
    if (!world_.is_alive(rank)) continue;
    const Rank& self = state_[static_cast<size_t>(rank)];
    if (self.outstanding > 0) return false;
    if (self.end.is_ok() && self.next < program_.ops().size()) return false;
  }
  return true;
}

// ------------------------------------------------------------------------------- the checker

std::string SimJob::check_results(int besides) const {
  for (size_t op = 0; op < program_.ops().size(); ++op) {
    const Program::Op& the = program_.ops()[op];
    for (int rank = 0; rank < program_.ranks(); ++rank) {
      const Outcome& outcome = at(op, rank).outcome;
      if (rank == besides || !outcome.done || !outcome.status.is_ok()) continue;
      const Bytes& expected = the.expected[static_cast<size_t>(rank)];
      const Bytes& got = outcome.result;
      if (the.spec.rough || got == expected) continue;
      const size_t first = static_cast<size_t>(
          std::mismatch(got.begin(), got.end(), expected.begin()).first - got.begin());
      return "operation " + std::to_string(op) + " (" + the.spec.name() + "): rank " +
             std::to_string(rank) + " has a wrong byte at " + std::to_string(first) + " of " +
             std::to_string(expected.size());
    }
  }
  return "";
}

std::string SimJob::check_memory() const {
  for (size_t op = 0; op < program_.ops().size(); ++op) {
    for (int rank = 0; rank < program_.ranks(); ++rank) {
      const Place& here = at(op, rank);
      const std::string where = "operation " + std::to_string(op) + " (" +
                                program_.ops()[op].spec.name() + "): rank " + std::to_string(rank);
      if (!here.input.is_intact() || !here.output.is_intact()) {
        return where + " wrote outside of its buffers";
      }
      if (!here.outcome.done) continue;
      if (!is_spoiled(here.input, here.input_size) || !is_spoiled(here.output, here.output_size)) {
        return where + " was written to after it was complete";
      }
    }
  }
  return "";
}

}  // namespace nezha::simulation
