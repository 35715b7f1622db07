#include "simulation/protocol_points.h"

#include <algorithm>
#include <set>

namespace nezha::simulation {

using transport::FakeMoment;
using wire::FrameType;

namespace {

constexpr int kRanks = 3;
constexpr int kRails = 4;
constexpr uint64_t kChunkBytes = 4096;
constexpr uint64_t kElements = 12000;
// The ring cuts the vector into one slice a rank, and each into chunks.
constexpr uint32_t kRingChunks = 12;

bool is_data(const Passing& at) { return at.header.type == FrameType::data; }
bool is_of(const Passing& at, Collective collective) {
  return is_data(at) && at.header.op.collective == collective;
}
bool is_ring(const Passing& at) {
  return is_of(at, Collective::all_reduce) && at.header.op.algorithm == Algorithm::ring;
}
bool is_message(const Passing& at, uint16_t stage) {
  return is_of(at, Collective::send_recv) && at.header.stage == stage;
}
int generation(const Passing& at) { return is_data(at) ? wire::generation_of(at.header.flags) : 0; }

struct Kind {
  const char* name;
  bool (*matches)(const Passing&);
  bool has_payload;
  bool after_loss = false;
};

constexpr Kind kDataKinds[] = {
    {"ring.collecting", [](const Passing& at) { return is_ring(at) && at.header.stage == 0; }, true},
    {"ring.distributing", [](const Passing& at) { return is_ring(at) && at.header.stage == 1; }, true},
    {"ring.first_chunk", [](const Passing& at) { return is_ring(at) && at.header.chunk == 0; }, true},
    {"ring.last_chunk",
     [](const Passing& at) { return is_ring(at) && at.header.chunk >= kRingChunks - 1; }, true},
    {"ring.second_operation",
     [](const Passing& at) { return is_ring(at) && at.header.op_seq > 0; }, true},
    {"doubling",
     [](const Passing& at) {
       return is_data(at) && at.header.op.algorithm == Algorithm::recursive_doubling;
     },
     true},
    {"broadcast", [](const Passing& at) { return is_of(at, Collective::broadcast); }, true},
    {"scatter", [](const Passing& at) { return is_of(at, Collective::reduce_scatter); }, true},
    {"barrier", [](const Passing& at) { return is_of(at, Collective::barrier); }, false},
    {"message.short",
     [](const Passing& at) { return is_message(at, 0) && at.header.length > 0; }, true},
    {"message.offer",
     [](const Passing& at) { return is_message(at, 0) && at.header.length == 0; }, false},
    {"message.accept", [](const Passing& at) { return is_message(at, 1); }, false},
    {"message.payload", [](const Passing& at) { return is_message(at, 2); }, true},
    {"sent_again", [](const Passing& at) { return generation(at) == 1; }, true, true},
    {"sent_a_third_time", [](const Passing& at) { return generation(at) == 2; }, true, true},
};

constexpr Kind kControlKinds[] = {
    {"ack", [](const Passing& at) { return at.header.type == FrameType::ack; }, false},
    {"heartbeat", [](const Passing& at) { return at.header.type == FrameType::heartbeat; }, false, true},
    {"reconcile", [](const Passing& at) { return at.header.type == FrameType::reconcile; }, false, true},
    {"landed", [](const Passing& at) { return at.header.type == FrameType::landed; }, false, true},
};

const char* name_of(FakeMoment moment) {
  switch (moment) {
    case FakeMoment::sent: return "sent";
    case FakeMoment::half_landed: return "half_landed";
    case FakeMoment::landed: return "landed";
    case FakeMoment::released: return "acknowledged";
  }
  return "";
}

std::vector<ProtocolPoint> make_points() {
  std::vector<ProtocolPoint> points;
  const auto add = [&](const Kind& kind, FakeMoment moment) {
    points.push_back({std::string(kind.name) + "." + name_of(moment), kind.matches, moment,
                      kind.after_loss});
  };
  for (const Kind& kind : kDataKinds) {
    add(kind, FakeMoment::sent);
    if (kind.has_payload) add(kind, FakeMoment::half_landed);
    add(kind, FakeMoment::landed);
    add(kind, FakeMoment::released);
  }
  for (const Kind& kind : kControlKinds) {
    add(kind, FakeMoment::sent);
    add(kind, FakeMoment::landed);
  }
  return points;
}

std::vector<OpSpec> make_ops() {
  std::vector<OpSpec> ops;
  const auto add = [&](Collective collective, Algorithm algorithm, uint64_t count) -> OpSpec& {
    ops.emplace_back();
    ops.back().collective = collective;
    ops.back().algorithm = algorithm;
    ops.back().count = count;
    return ops.back();
  };
  add(Collective::all_reduce, Algorithm::ring, kElements).rough = true;
  add(Collective::broadcast, Algorithm::tree, 1200).root = 1;
  add(Collective::all_reduce, Algorithm::ring, kElements).in_place = true;
  add(Collective::send_recv, Algorithm::automatic, 40).receiver = 2;
  add(Collective::send_recv, Algorithm::automatic, 5000).receiver = 1;
  add(Collective::all_reduce, Algorithm::recursive_doubling, 200).rough = true;
  add(Collective::barrier, Algorithm::automatic, 0);
  add(Collective::reduce_scatter, Algorithm::automatic, 700);
  add(Collective::send_recv, Algorithm::automatic, 3000).receiver = 2;
  add(Collective::all_reduce, Algorithm::ring, kElements).rough = true;
  return ops;
}

WorldOptions make_world() {
  WorldOptions world;
  world.ranks = kRanks;
  world.rails = kRails;
  world.chunk_bytes = kChunkBytes;
  world.credit_bytes = 32 * 1024;
  world.inline_bytes = 256;
  world.ack_bytes = 16 * 1024;
  world.policy = "round_robin";
  return world;
}

// Watches for the points and strikes.
class Striker {
 public:
  Striker(SimWorld& world, const PointCase& at)
      : world_(world), at_(at), needs_loss_(protocol_points()[at.first].after_loss), left_(at.skip) {
    world_.network().on_passing = [this](const Passing& passing) { see(passing); };
  }
  ~Striker() { world_.network().on_passing = nullptr; }
  int struck() const { return struck_; }

 private:
  void see(const Passing& passing) {
    sent_again_ |= generation(passing) > 0;
    if (struck_ == 2) return cut_short(passing);
    if (needs_loss_ && is_ring(passing) && passing.moment == FakeMoment::sent) {
      needs_loss_ = false;
      broken_.insert(passing.path);
      return world_.soon([this, path = passing.path, to = passing.to] { strike(path, to); });
    }
    const ProtocolPoint& point = protocol_points()[struck_ == 0 ? at_.first : at_.second];
    if (passing.moment != point.moment || !point.matches(passing)) return;
    if (is_late() && struck_ == 1) return let_out();
    if (broken_.contains(passing.path) || whole_rails(passing.path) < 2) return;
    if (left_-- > 0) return;
    left_ = at_.skip;
    ++struck_;
    broken_.insert(passing.path);
    struck_path_ = passing.path;
    world_.soon([this, path = passing.path, to = passing.to] { strike(path, to); });
  }
  bool is_late() const { return at_.blow == Blow::late_copy || at_.blow == Blow::late_copy_dies; }
  // What the hole swallowed arrives now, beside what was sent in its place.
  void let_out() {
    if (!sent_again_ || left_-- > 0) return;
    ++struck_;
    for (const int to : {0, 1}) world_.network().set_hole(struck_path_, to, false, true);
  }
  void cut_short(const Passing& passing) {
    if (at_.blow != Blow::late_copy_dies || is_cut_ || passing.path != struck_path_) return;
    if (passing.moment != FakeMoment::half_landed) return;
    is_cut_ = true;
    world_.soon([this] { world_.reset(struck_path_); });
  }
  int whole_rails(const PathName& path) const {
    int whole = 0;
    for (int rail = 0; rail < kRails; ++rail) {
      whole += broken_.contains({path.low, path.high, rail}) ? 0 : 1;
    }
    return whole;
  }
  void strike(const PathName& path, int to) {
    const int side = to == path.low ? 0 : 1;
    switch (at_.blow) {
      case Blow::reset: return world_.reset(path);
      case Blow::late_reset: return world_.reset(path, kMillisecond);
      case Blow::late_copy:
      case Blow::late_copy_dies:
      case Blow::hole: world_.network().set_hole(path, 1 - side, true); [[fallthrough]];
      case Blow::one_way: return world_.network().set_hole(path, side, true);
    }
  }

  SimWorld& world_;
  const PointCase at_;
  bool needs_loss_;
  int left_;
  int struck_ = 0;
  bool sent_again_ = false;
  bool is_cut_ = false;
  PathName struck_path_;
  std::set<PathName> broken_;
};

}  // namespace

std::string_view name_of(Blow blow) {
  constexpr std::string_view kNames[kBlows] = {"reset",   "late_reset", "hole",
                                               "one_way", "late_copy",  "late_copy_dies"};
  return kNames[static_cast<size_t>(blow)];
}

const std::vector<ProtocolPoint>& protocol_points() {
  static const std::vector<ProtocolPoint> points = make_points();
  return points;
}

PointRunner::PointRunner() : world_(make_world()), program_(kRanks, make_ops(), 5) {
  job_.outstanding = 2;
  wrong_ = run_reference(world_, job_, program_, &fault_free_);
}

PointReport PointRunner::run(const PointCase& at) {
  WorldOptions options = world_;
  options.seed = at.seed;
  SimWorld world(options);
  const Striker striker(world, at);
  SimJob job(world, program_, job_);
  PointReport report;
  report.wrong = finish(world, job, 20 * fault_free_ + 10 * kSecond, -1);
  report.struck = striker.struck();
  return report;
}

}  // namespace nezha::simulation
