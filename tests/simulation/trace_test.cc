// What the engine sends, frame by frame, beside what it sent when traces.txt was written: a change that
// is meant to change no behaviour changes no line of it. Written again, where a change is meant to:
//
//   simulation_tests --trace FOLDER --gtest_filter='*Trace*'
//
// puts a new traces.txt into FOLDER, and for each scenario a file with one line a frame, so that two
// builds can be compared with diff.
#include <gtest/gtest.h>

#include <array>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "base/number_hash.h"
#include "simulation/options.h"
#include "simulation/scenario.h"

namespace nezha::simulation {
namespace {

constexpr const char* kRecorded = "tests/simulation/traces.txt";
constexpr uint64_t kSeedsEach = 8;

Scenario without_faults(uint64_t seed) {
  Scenario scenario = random_scenario(seed + 1000);
  scenario.faults.clear();
  return scenario;
}

Scenario on_demand(uint64_t seed) {
  Scenario scenario = random_scenario(seed + 2000);
  scenario.world.on_demand = true;
  return scenario;
}

struct Kind {
  const char* name;
  Scenario (*scenario)(uint64_t seed);
};
constexpr std::array<Kind, 5> kKinds = {{{"plain", without_faults},
                                         {"faults", random_scenario},
                                         {"on_demand", on_demand},
                                         {"messages", message_scenario},
                                         {"late_writes", late_write_scenario}}};

// Frames on their way out: their time, rail and header. Those of rails that write into memory are
// fabrics' own; the world's fingerprint has when they arrive.
class Trace {
 public:
  explicit Trace(FILE* lines) : lines_(lines) {}

  void watch(SimWorld& world) {
    world.network().on_passing = [this, &world](const Passing& passing) {
      if (passing.moment == transport::FakeMoment::sent) add(world.now(), passing);
    };
  }
  uint64_t frames() const { return frames_; }
  uint64_t hash() const { return hash_.value(); }

 private:
  void add(Nanoseconds now, const Passing& passing) {
    ++frames_;
    const std::array<uint64_t, 6> where = {
        static_cast<uint64_t>(now),          static_cast<uint64_t>(passing.from),
        static_cast<uint64_t>(passing.to),   static_cast<uint64_t>(passing.path.rail),
        static_cast<uint64_t>(passing.lane), passing.epoch};
    for (const uint64_t value : where) hash_.add(value);
    std::array<std::byte, wire::kHeaderBytes> bytes;
    wire::encode(passing.header, bytes);
    for (const std::byte byte : bytes) hash_.add(static_cast<uint64_t>(byte));
    if (lines_ != nullptr) print(now, passing);
  }
  void print(Nanoseconds now, const Passing& passing) const {
    const wire::FrameHeader& header = passing.header;
    std::fprintf(lines_, "%" PRId64 " %d>%d rail %d.%d.%u type %d flags %d comm %" PRIu64 " op %" PRIu64
                 " stage %u slot %u chunk %u length %u ack %u credit %" PRIu64 " rails %u %s count %"
                 PRIu64 " root %u plan %u\n", static_cast<int64_t>(now), passing.from, passing.to,
                 passing.path.rail, passing.lane, passing.epoch, static_cast<int>(header.type),
                 header.flags, header.comm, header.op_seq, header.stage, header.slot, header.chunk,
                 header.length, header.ack, header.credit, header.rails,
                 std::string(wire::name_of(header.op)).c_str(), header.op.count, header.op.root,
                 header.op.plan);
  }

  FILE* lines_;
  uint64_t frames_ = 0;
  NumberHash hash_;
};

// "faults 3": its line, as in traces.txt.
std::string traced(const std::string& name, Scenario scenario) {
  std::string path = trace_folder().empty() ? "" : trace_folder() + "/" + name + ".txt";
  for (char& letter : path) letter = letter == ' ' ? '_' : letter;
  FILE* const lines = path.empty() ? nullptr : std::fopen(path.c_str(), "w");
  EXPECT_EQ(lines == nullptr, path.empty()) << "cannot write " << path;
  Trace trace(lines);
  scenario.on_world = [&](SimWorld& world) { trace.watch(world); };
  const Report report = run(scenario);
  if (lines != nullptr) std::fclose(lines);
  EXPECT_EQ(report.wrong, "") << name;
  char line[160];
  std::snprintf(line, sizeof(line), "%s: %" PRIu64 " frames %016" PRIx64 ", history %016" PRIx64
                ", %" PRId64 " ns", name.c_str(), trace.frames(), trace.hash(), report.fingerprint,
                static_cast<int64_t>(report.duration));
  return line;
}

std::vector<std::string> recorded() {
  std::vector<std::string> lines;
  std::ifstream file(kRecorded);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

TEST(Trace, IsTheRecordedOne) {
  std::vector<std::string> lines;
  for (const Kind& kind : kKinds) {
    for (uint64_t seed = 1; seed <= kSeedsEach; ++seed) {
      lines.push_back(traced(std::string(kind.name) + " " + std::to_string(seed), kind.scenario(seed)));
    }
  }
  if (!trace_folder().empty()) {
    std::ofstream out(trace_folder() + "/traces.txt");
    for (const std::string& line : lines) out << line << '\n';
    return;
  }
  const std::vector<std::string> known = recorded();
  ASSERT_EQ(lines.size(), known.size()) << kRecorded;
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i], known[i]) << "what is sent has changed; the head of this test says how the "
                                     "frames of two builds are compared, and recorded again";
  }
}

}  // namespace
}  // namespace nezha::simulation
