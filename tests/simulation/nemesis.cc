#include "simulation/nemesis.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "simulation/scenario.h"

namespace nezha::simulation {

using transport::FakeMoment;
using wire::FrameType;

namespace {

constexpr int kRails = 3;
constexpr Nanoseconds kLimit = 8 * kSecond;

OpSpec op_of(Collective collective, Algorithm algorithm, uint64_t count, int root = 0) {
  OpSpec spec;
  spec.collective = collective;
  spec.algorithm = algorithm;
  spec.dtype = Dtype::int32;
  spec.count = count;
  spec.root = root;
  spec.receiver = 1 - std::min(root, 1);
  return spec;
}

std::vector<OpSpec> mixed_ops() {
  std::vector<OpSpec> ops;
  for (uint64_t i = 0; i < 3; ++i) {
    ops.push_back(op_of(Collective::all_reduce, Algorithm::ring, 9000 + i));
    ops.back().in_place = i % 2 == 1;
    ops.push_back(op_of(Collective::send_recv, Algorithm::automatic, 12'000, static_cast<int>(i % 2)));
    ops.push_back(op_of(Collective::reduce_scatter, Algorithm::automatic, 1500));
    ops.push_back(op_of(Collective::all_reduce, Algorithm::recursive_doubling, 900));
  }
  return ops;
}

// Everything goes one way: the credits of the others come in acknowledgements only.
std::vector<OpSpec> rooted_ops() {
  std::vector<OpSpec> ops;
  for (int i = 0; i < 4; ++i) {
    ops.push_back(op_of(Collective::broadcast, Algorithm::automatic, 24'000, i % 2));
    ops.push_back(op_of(Collective::reduce, Algorithm::automatic, 12'000, i % 2));
  }
  return ops;
}

// Short messages and long ones, many at a time.
std::vector<OpSpec> message_ops() {
  std::vector<OpSpec> ops;
  for (uint64_t i = 0; i < 32; ++i) {
    constexpr uint64_t kCounts[] = {40, 9000, 64, 3000, 0, 64, 17, 12'000};
    const int root = i % 8 < 5 ? 0 : 1;
    ops.push_back(op_of(Collective::send_recv, Algorithm::automatic, kCounts[i % 8], root));
  }
  return ops;
}

// More chunks than a window has.
std::vector<OpSpec> long_ops() {
  return {op_of(Collective::all_reduce, Algorithm::ring, 60'000),
          op_of(Collective::all_reduce, Algorithm::ring, 50'001),
          op_of(Collective::send_recv, Algorithm::automatic, 60'000)};
}

// Made once: the data take longer than the runs.
const Program& program_of(int ranks, std::vector<OpSpec> (*ops)()) {
  static std::map<std::pair<int, std::vector<OpSpec> (*)()>, Program> made;
  const auto found = made.find({ranks, ops});
  if (found != made.end()) return found->second;
  return made.try_emplace({ranks, ops}, ranks, ops(), 3).first->second;
}

WorldOptions world_of(uint64_t seed) {
  WorldOptions options;
  options.seed = seed;
  options.ranks = 2 + static_cast<int>(seed % 2);
  options.rails = kRails;
  options.credit_bytes = 32 * 1024;
  options.policy = seed % 3 == 0 ? "pull" : "round_robin";
  return options;
}

// A world with its program, and what watches it.
struct Stage {
  Stage(const WorldOptions& options, const JobOptions& job_options, std::vector<OpSpec> (*ops)())
      : world(options), program(program_of(options.ranks, ops)), job(world, program, job_options) {}
  ~Stage() { world.network().on_passing = nullptr; }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  SimNetwork& network() { return world.network(); }
  static size_t side(const PathName& path, int rank) { return rank == path.low ? 0 : 1; }
  void hole(const PathName& path, int to, bool on) {
    network().set_hole(path, static_cast<int>(side(path, to)), on, true);
  }
  std::string finish() { return simulation::finish(world, job, kLimit, -1); }
  // The same where no connection has a reason to end.
  std::string finish_whole() {
    if (std::string wrong = finish(); !wrong.empty()) return wrong;
    return lost() == 0 ? "" : "a connection was given up for no reason";
  }
  uint64_t lost() {
    uint64_t sum = 0;
    for (int rank = 0; rank < world.ranks(); ++rank) {
      sum += world.engine(rank).counters().connections_lost;
    }
    return sum;
  }

  SimWorld world;
  const Program& program;
  SimJob job;
};

bool is_long_data(const Passing& at) {
  return at.header.type == FrameType::data && at.header.length >= 1024;
}

// ------------------------------------------------------------------------- two copies at once

using Identity = std::tuple<int, int, uint32_t, bool, uint64_t, uint32_t, uint16_t, uint16_t>;

Identity identity_of(const Passing& at) {
  const wire::FrameHeader& header = at.header;
  return {at.from, at.to, header.comm, header.op.collective == Collective::send_recv, header.op_seq,
          header.chunk, header.stage, header.slot};
}

// A transfer is held up on its way until it was sent again. Then both copies are arriving at the same
// time, half of each is there, and one of the connections dies, or none.
class TwoCopies {
 public:
  TwoCopies(Stage& stage, uint64_t seed)
      : stage_(stage),
        half_first_(seed / 2 % 2 == 0),
        one_way_(seed / 4 % 2 == 0),
        dies_(static_cast<Dies>(seed / 8 % 3)),
        left_(static_cast<int>(seed * 7 % 90)) {
    stage_.network().on_passing = [this](const Passing& at) { see(at); };
  }
  bool happened() const { return phase_ == Phase::over; }

 private:
  enum class Phase { before, held, both_arriving, over };
  enum class Dies { older, newer, none };

  void see(const Passing& at) {
    if (!is_long_data(at)) return;
    switch (phase_) {
      case Phase::before: return hold(at);
      case Phase::held:
        if (at.path == older_) {
          if (at.moment == FakeMoment::sent && !half_first_) held_.insert(identity_of(at));
        } else if (at.moment == FakeMoment::half_landed && held_.contains(identity_of(at))) {
          meet(at);
        }
        return;
      case Phase::both_arriving:
        if (at.path == older_ && at.moment == FakeMoment::half_landed &&
            identity_of(at) == both_) {
          part();
        }
        return;
      case Phase::over: return;
    }
  }
  void hold(const Passing& at) {
    const FakeMoment moment = half_first_ ? FakeMoment::half_landed : FakeMoment::sent;
    if (at.moment != moment || left_-- > 0) return;
    phase_ = Phase::held;
    older_ = at.path;
    held_.insert(identity_of(at));
    stage_.world.soon([this, at] {
      stage_.hole(older_, at.to, true);
      if (!one_way_) stage_.hole(older_, at.from, true);
    });
  }
  void meet(const Passing& at) {
    newer_ = at.path;
    both_ = identity_of(at);
    to_ = at.to;
    if (half_first_) return part();  // the older one is half there already
    phase_ = Phase::both_arriving;
    stage_.world.soon([this, from = at.from] {
      stage_.hole(newer_, to_, true);
      stage_.hole(older_, to_, false);
      stage_.hole(older_, from, false);
    });
    stage_.world.at(stage_.world.now() + 20 * kMillisecond, [this] {
      if (phase_ == Phase::both_arriving) stage_.hole(newer_, to_, false);
    });
  }
  void part() {
    phase_ = Phase::over;
    stage_.world.soon([this] {
      if (dies_ == Dies::older) stage_.world.reset(older_);
      if (dies_ == Dies::newer) stage_.world.reset(newer_);
      for (const PathName& path : {newer_, older_}) {
        stage_.hole(path, path.low, false);
        stage_.hole(path, path.high, false);
      }
    });
  }

  Stage& stage_;
  const bool half_first_;
  const bool one_way_;
  const Dies dies_;
  int left_;
  Phase phase_ = Phase::before;
  PathName older_, newer_;
  int to_ = 0;
  std::set<Identity> held_;
  Identity both_;
};

NemesisReport copies_meet(uint64_t seed) {
  JobOptions job;
  job.outstanding = seed % 5 == 0 ? 4 : 1;
  Stage stage(world_of(seed), job, mixed_ops);
  const TwoCopies copies(stage, seed);
  std::string wrong = stage.finish();
  return {std::move(wrong), copies.happened()};
}

// -------------------------------------------------------------------- what the others never heard

// From some acknowledgement on nothing of its direction arrives, until the connection dies: with it die
// the credits and acknowledgements on their way.
NemesisReport credits_die(uint64_t seed) {
  constexpr Nanoseconds kLater[] = {200 * kMicrosecond, kMillisecond, 5 * kMillisecond,
                                    20 * kMillisecond};
  WorldOptions options = world_of(seed);
  options.credit_bytes = 16 * 1024;
  options.ack_bytes = seed % 2 == 0 ? 1024 : 64 * 1024;
  Stage stage(options, {}, rooted_ops);
  bool struck = false;
  int left = static_cast<int>(seed * 5 % 60);
  stage.network().on_passing = [&](const Passing& at) {
    if (struck || at.header.type != FrameType::ack || at.header.credit == 0) return;
    if (at.moment != FakeMoment::sent || left-- > 0) return;
    struck = true;
    stage.world.soon([&stage, at] { stage.hole(at.path, at.to, true); });
    stage.world.at(stage.world.now() + kLater[seed / 2 % 4], [&stage, at] {
      stage.world.reset(at.path);
      stage.hole(at.path, at.to, false);
    });
  };
  std::string wrong = stage.finish();
  return {std::move(wrong), struck};
}

// --------------------------------------------------------------------------- early, and twice

// A rank calls its operations long after the others. What is meant for it is held up on its way, sent
// again, and arrives twice before the call.
NemesisReport early_copies(uint64_t seed) {
  JobOptions job;
  job.late_rank = static_cast<int>(seed % 2);
  job.late_by = 150 * kMillisecond;
  job.outstanding = seed % 3 == 0 ? 4 : 1;
  Stage stage(world_of(seed), job, mixed_ops);
  int holes = 0;
  int left = static_cast<int>(seed % 12);
  PathName path;
  stage.network().on_passing = [&](const Passing& at) {
    const bool open = holes > 0 && stage.network().path(path).hole[Stage::side(path, job.late_rank)];
    if (!is_long_data(at) || at.to != job.late_rank || at.moment != FakeMoment::sent) return;
    if (open || holes == 3 || left-- > 0) return;
    ++holes;
    left = static_cast<int>(seed / 3 % 20);
    path = at.path;
    stage.world.soon([&stage, at] { stage.hole(at.path, at.to, true); });
    const Nanoseconds closes = (50 + static_cast<Nanoseconds>(seed % 4) * 20) * kMillisecond;
    stage.world.at(stage.world.now() + closes, [&stage, at] { stage.hole(at.path, at.to, false); });
  };
  std::string wrong = stage.finish();
  return {std::move(wrong), holes > 0};
}

// A frame is held up until it was sent again and that copy has landed: the late one comes at its heels.
NemesisReport late_twin(uint64_t seed) {
  JobOptions job;
  job.outstanding = seed % 2 == 0 ? 1 : 6;
  const uint64_t kind = seed % 4;
  Stage stage(world_of(seed), job, kind < 2 ? message_ops : kind == 2 ? mixed_ops : long_ops);
  const auto after = static_cast<Nanoseconds>(kind == 3 ? seed / 4 % 5 * 300 : 0) * kMicrosecond;
  enum { before, held, over } phase = before;
  int left = static_cast<int>(seed * 11 % 70);
  PathName path;
  std::set<Identity> held_up;
  stage.network().on_passing = [&](const Passing& at) {
    if (at.header.type != FrameType::data) return;
    if (phase == before && at.moment == FakeMoment::sent && left-- <= 0) {
      phase = held;
      path = at.path;
      stage.world.soon([&stage, at] { stage.hole(at.path, at.to, true); });
    }
    if (phase != held) return;
    if (at.path == path && at.moment == FakeMoment::sent) held_up.insert(identity_of(at));
    if (at.path == path || at.moment != FakeMoment::landed || !held_up.contains(identity_of(at))) return;
    phase = over;
    const auto let_out = [&stage, path, to = at.to] { stage.hole(path, to, false); };
    if (after == 0) return stage.world.soon(let_out);
    stage.world.at(stage.world.now() + after, let_out);
  };
  // Nothing was held up that would have been sent again: the job ended.
  stage.world.at(stage.world.now() + 600 * kMillisecond, [&] {
    for (const int to : {path.low, path.high}) stage.hole(path, to, false);
  });
  std::string wrong = stage.finish_whole();
  return {std::move(wrong), phase == over};
}

// Half of a frame is there, and the rest takes its time; nothing is lost.
NemesisReport half_for_a_while(uint64_t seed) {
  JobOptions job;
  job.outstanding = seed % 2 == 0 ? 2 : 8;
  Stage stage(world_of(seed), job, seed % 4 < 3 ? message_ops : mixed_ops);
  int left = static_cast<int>(seed % 9);
  int struck = 0;
  stage.network().on_passing = [&](const Passing& at) {
    if (at.header.type != FrameType::data || at.moment != FakeMoment::half_landed) return;
    if (struck == 3 || left-- > 0) return;
    ++struck;
    left = static_cast<int>(seed / 2 % 7);
    stage.world.soon([&stage, at] { stage.hole(at.path, at.to, true); });
    const Nanoseconds closes = (1 + static_cast<Nanoseconds>(seed % 5) * 6) * kMillisecond;
    stage.world.at(stage.world.now() + closes, [&stage, at] { stage.hole(at.path, at.to, false); });
  };
  std::string wrong = stage.finish_whole();
  return {std::move(wrong), struck > 0};
}

// ---------------------------------------------------------------------------- nothing goes wrong

// A rank calls its operations long after those who have much to send to it: they keep to their credit.
NemesisReport late_caller(uint64_t seed) {
  WorldOptions options = world_of(seed);
  options.credit_bytes = (16 + 16 * (seed / 2 % 2)) * 1024;
  JobOptions job;
  job.late_rank = static_cast<int>(seed % static_cast<uint64_t>(options.ranks));
  job.late_by = 30 * kMillisecond;
  job.outstanding = seed % 3 == 0 ? 4 : 1;
  Stage stage(options, job, rooted_ops);
  std::string wrong = stage.finish_whole();
  return {std::move(wrong), true};
}

// A line on which a bit of a header changes now and then: its connection ends, and nothing is believed.
NemesisReport noisy_line(uint64_t seed) {
  Stage stage(world_of(seed), {}, seed % 2 == 0 ? message_ops : mixed_ops);
  std::mt19937_64 random(seed);
  int changed = 0;
  int left = static_cast<int>(random() % 40);
  stage.network().on_tamper = [&](int from, int, std::deque<transport::FakeFrame>& under_way) {
    if (from != 0 || changed == 6 || left-- > 0) return;
    left = static_cast<int>(random() % 40);
    ++changed;
    auto& header = under_way.back().header;
    header[random() % header.size()] ^= static_cast<std::byte>(1 << random() % 8);
  };
  std::string wrong = stage.finish();
  stage.network().on_tamper = nullptr;
  return {std::move(wrong), changed > 0};
}

// ------------------------------------------------------------------- words about lost connections

// A connection is lost twice. What the peer says about the first loss arrives after the second, or the
// question about it when its successor carries data.
class LateWords {
 public:
  LateWords(Stage& stage, uint64_t seed)
      : stage_(stage), question_(seed % 2 == 0), seed_(seed), left_(static_cast<int>(seed / 2 % 8)) {
    stage_.network().on_passing = [this](const Passing& at) { see(at); };
  }
  bool happened() const { return phase_ == Phase::over; }

 private:
  enum class Phase { before, lost, held, over };
  static constexpr PathName kLost{0, 1, kRails - 1};  // what is said goes by the first rail
  static constexpr PathName kWords{0, 1, 0};

  void see(const Passing& at) {
    if (phase_ == Phase::before) return lose(at);
    if (phase_ == Phase::lost) return hold(at);
    if (phase_ == Phase::held && !question_) lose_again(at);
  }
  void lose(const Passing& at) {
    if (at.path != kLost || !is_long_data(at) || at.moment != FakeMoment::sent || left_-- > 0) return;
    phase_ = Phase::lost;
    asker_ = at.from;
    epoch_ = at.epoch;
    stage_.world.soon([this] { stage_.world.reset(kLost); });
  }
  void hold(const Passing& at) {
    const FrameType word = question_ ? FrameType::reconcile : FrameType::landed;
    const int from = question_ ? asker_ : 1 - asker_;
    if (at.path != kWords || at.header.type != word || at.from != from) return;
    if (at.moment != FakeMoment::sent) return;
    phase_ = question_ ? Phase::over : Phase::held;
    stage_.world.soon([this, to = at.to] { stage_.hole(kWords, to, true); });
    if (!question_) return;
    const Nanoseconds closes = 2 * kMillisecond + static_cast<Nanoseconds>(seed_ % 29) * 100'000;
    stage_.world.at(stage_.world.now() + closes, [this, to = at.to] { stage_.hole(kWords, to, false); });
  }
  void lose_again(const Passing& at) {
    if (at.path != kLost || at.epoch == epoch_ || at.from != asker_ || !is_long_data(at)) return;
    if (at.moment != FakeMoment::sent) return;
    phase_ = Phase::over;
    stage_.world.soon([this] {
      stage_.world.reset(kLost);
      stage_.hole(kWords, asker_, false);
    });
  }

  Stage& stage_;
  const bool question_;
  const uint64_t seed_;
  int left_;
  Phase phase_ = Phase::before;
  int asker_ = 0;
  uint32_t epoch_ = 0;
};

NemesisReport late_words(uint64_t seed) {
  WorldOptions options = world_of(seed);
  options.policy = "round_robin";
  options.ranks = 2;
  Stage stage(options, {}, mixed_ops);
  const LateWords words(stage, seed);
  stage.world.at(stage.world.now() + kSecond, [&] {
    for (const int to : {0, 1}) stage.hole({0, 1, 0}, to, false);
  });
  std::string wrong = stage.finish();
  return {std::move(wrong), words.happened()};
}

constexpr Nemesis kNemeses[] = {
    {"copies_meet", copies_meet},
    {"credits_die", credits_die},
    {"early_copies", early_copies},
    {"late_twin", late_twin},
    {"half_for_a_while", half_for_a_while},
    {"late_caller", late_caller},
    {"noisy_line", noisy_line},
    {"late_words", late_words},
};

}  // namespace

std::span<const Nemesis> nemeses() { return kNemeses; }

}  // namespace nezha::simulation
