#include "simulation/hostile.h"

#include <algorithm>

namespace nezha::simulation {

using transport::FakeFrame;
using wire::FrameHeader;
using wire::FrameType;

namespace {

constexpr uint32_t kLengthMax = 256 * 1024;
constexpr size_t kRemembered = 32;

enum class Trick : uint8_t {
  flip,        // bits of the header, so that its checksum is wrong
  describe,    // another operation
  account,     // acknowledgement, credit, flags
  retype,
  stretch,     // another length
  repeat,
  replay,      // a frame of earlier
  drop,
  swap,
  invent,      // a frame about connections or a failure
  move,        // another identity: chunk, stage, slot, operation, communicator
};
constexpr uint64_t kTricks = 11;

class Tamperer {
 public:
  Tamperer(uint64_t seed, bool moves_identity)
      : random_(seed), moves_(moves_identity), one_in_(2 + random_() % 40) {}

  void see(std::deque<FakeFrame>& under_way) {
    remember(under_way.back());
    if (random_() % one_in_ != 0) return;
    ++tampered;
    play(static_cast<Trick>(random_() % (moves_ ? kTricks : kTricks - 1)), under_way);
  }
  uint64_t tampered = 0;

 private:
  void remember(const FakeFrame& frame) {
    if (memory_.size() == kRemembered) memory_.pop_front();
    memory_.push_back(frame);
  }
  // A value near the old one, or anything.
  template <class Value>
  void change(Value& value) {
    const uint64_t choice = random_() % 4;
    if (choice == 0) value = static_cast<Value>(value + 1);
    else if (choice == 1) value = static_cast<Value>(value - 1);
    else if (choice == 2) value = static_cast<Value>(random_() % 8);
    else value = static_cast<Value>(random_());
  }
  void play(Trick trick, std::deque<FakeFrame>& under_way);
  void change_header(Trick trick, FakeFrame& frame);
  void describe(FrameHeader& header);
  void account(FrameHeader& header);
  void move(FrameHeader& header);
  FakeFrame invent(const FakeFrame& like);

  std::mt19937_64 random_;
  const bool moves_;
  const uint64_t one_in_;
  std::deque<FakeFrame> memory_;
};

void Tamperer::describe(FrameHeader& header) {
  switch (random_() % 7) {
    case 0: header.op.collective = static_cast<Collective>(random_() % kCollectiveCount); break;
    case 1: header.op.dtype = static_cast<Dtype>(random_() % kDtypeCount); break;
    case 2: header.op.op = static_cast<ReduceOp>(random_() % kReduceOpCount); break;
    case 3: header.op.algorithm = static_cast<Algorithm>(random_() % kAlgorithmCount); break;
    case 4: change(header.op.root); break;
    case 5: change(header.op.count); break;
    default: change(header.op.plan);
  }
}

void Tamperer::account(FrameHeader& header) {
  switch (random_() % 3) {
    case 0: change(header.ack); break;
    case 1: change(header.credit); break;
    default: change(header.flags);
  }
}

void Tamperer::move(FrameHeader& header) {
  switch (random_() % 5) {
    case 0: change(header.chunk); break;
    case 1: change(header.stage); break;
    case 2: change(header.slot); break;
    case 3: change(header.op_seq); break;
    default: change(header.comm);
  }
}

void Tamperer::change_header(Trick trick, FakeFrame& frame) {
  FrameHeader header;
  if (wire::decode(frame.header, &header) != wire::HeaderError::none) return;
  switch (trick) {
    case Trick::describe: describe(header); break;
    case Trick::account: account(header); break;
    case Trick::move: move(header); break;
    case Trick::retype:
      header.type = static_cast<FrameType>(1 + random_() % 10);
      if (random_() % 2 == 0) header.flags = 0;
      break;
    default:
      change(header.length);
      if (header.length > kLengthMax) header.length %= kLengthMax;
      frame.payload.resize(header.length);
  }
  wire::encode(header, frame.header);
}

FakeFrame Tamperer::invent(const FakeFrame& like) {
  FrameHeader header;
  if (wire::decode(like.header, &header) != wire::HeaderError::none) return like;
  FakeFrame frame;
  frame.header_due = frame.end_due = like.end_due;
  header.type = static_cast<FrameType>(2 + random_() % 8);
  header.flags = 0;
  header.length = 0;
  if (header.type == FrameType::heartbeat) header.flags = static_cast<uint8_t>(random_() % 4);
  change(header.op_seq);
  change(header.chunk);
  header.stage = static_cast<uint16_t>(random_() % 6);
  header.slot = static_cast<uint16_t>(random_() % 6);
  if (header.type == FrameType::failure) header.slot = static_cast<uint16_t>(1 + random_() % 8);
  if (header.type == FrameType::reserve) {
    header.stage = static_cast<uint16_t>(1 + random_() % wire::kReserveKinds);
    change(header.op.count);
  }
  if (header.type == FrameType::failure || header.type == FrameType::agree) {
    header.length = static_cast<uint32_t>(random_() % 200);
    frame.payload.resize(header.length);
    for (std::byte& byte : frame.payload) byte = static_cast<std::byte>(random_());
  }
  wire::encode(header, frame.header);
  return frame;
}

void Tamperer::play(Trick trick, std::deque<FakeFrame>& under_way) {
  FakeFrame& last = under_way.back();
  switch (trick) {
    case Trick::flip:
      last.header[random_() % last.header.size()] ^= static_cast<std::byte>(1 << random_() % 8);
      return;
    case Trick::repeat: return under_way.push_back(FakeFrame(last));
    case Trick::replay: {
      FakeFrame old = memory_[random_() % memory_.size()];
      old.header_due = old.end_due = last.end_due;
      return under_way.push_back(std::move(old));
    }
    case Trick::drop: return under_way.pop_back();
    case Trick::swap:
      if (under_way.size() < 2) return;
      std::swap(last.header, under_way[under_way.size() - 2].header);
      return std::swap(last.payload, under_way[under_way.size() - 2].payload);
    case Trick::invent: return under_way.push_back(invent(last));
    default: return change_header(trick, last);
  }
}

// Messages only: in random programs they are few.
void send_messages(Scenario& scenario) {
  scenario.world.chunk_bytes = std::max<uint64_t>(scenario.world.chunk_bytes, 4096);
  scenario.world.credit_bytes = std::max<uint64_t>(scenario.world.credit_bytes, 32 * 1024);
  scenario.world.inline_bytes = 1024;
  if (scenario.data_seed % 2 == 0) scenario.world.message_policy = "dynamic";
  const int ranks = scenario.world.ranks;
  std::mt19937_64 random(scenario.data_seed);
  scenario.ops.assign(40, OpSpec());
  for (OpSpec& op : scenario.ops) {
    op.collective = Collective::send_recv;
    op.root = static_cast<int>(random() % static_cast<uint64_t>(ranks));
    op.receiver = (op.root + 1) % ranks;
    op.count = random() % 2 == 0 ? random() % 256 : random() % 6000;
  }
}

}  // namespace

HostileReport run_hostile(uint64_t seed) {
  constexpr Nanoseconds kDeadline = 2 * kSecond;
  HostileReport report;
  Scenario scenario = random_scenario(seed);
  scenario.job.deadline = kDeadline;
  if (seed % 2 == 1) send_messages(scenario);
  Program program(scenario.world.ranks, scenario.ops, scenario.data_seed);
  Nanoseconds fault_free = 0;
  report.wrong = run_reference(scenario.world, scenario.job, program, &fault_free);
  if (!report.wrong.empty()) return report;
  const int villain = static_cast<int>(seed % static_cast<uint64_t>(scenario.world.ranks));
  report.moves_identity = seed % 3 == 0;
  SimWorld world(scenario.world);
  Tamperer tamperer(seed, report.moves_identity);
  world.network().on_tamper = [&](int from, int, std::deque<FakeFrame>& under_way) {
    if (from == villain) tamperer.see(under_way);
  };
  SimJob job(world, program, scenario.job);
  const Nanoseconds limit = static_cast<Nanoseconds>(job.ops()) * (kDeadline + kSecond);
  const bool over = world.run_until([&] { return job.is_over(); }, world.now() + limit);
  report.tampered = tamperer.tampered;
  for (int rank = 0; rank < world.ranks(); ++rank) {
    for (size_t op = 0; op < job.ops() && rank != villain; ++op) {
      const SimJob::Outcome& outcome = job.outcome(op, rank);
      if (outcome.done) ++(outcome.status.is_ok() ? report.results : report.errors);
    }
  }
  if (!over) {
    report.wrong = "an honest rank waits for ever";
  } else if (job.scratch_peak() > scratch_bound(scenario.world)) {
    report.wrong = "private memory grew to " + std::to_string(job.scratch_peak()) + " bytes";
  } else {
    report.wrong = job.check_memory();
  }
  if (report.wrong.empty() && !report.moves_identity) report.wrong = job.check_results(villain);
  return report;
}

}  // namespace nezha::simulation
