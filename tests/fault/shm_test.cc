// Ranks of one host that share memory: one that is killed is named by the others and leaves nothing
// behind, one that stands still costs nobody an error, and where memory cannot be passed loopback is
// used.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "support/captured_log.h"
#include "support/child.h"
#include "support/sockets.h"
#include "support/temp_directory.h"
#include "support/world.h"

namespace nezha::testing {
namespace {

struct Report {
  Code code = Code::ok;
  bool names_victim = false;
  int segments = 0;         // that its connections are mapped to
  int64_t in_memory = 0;    // bytes of its operations that went through the memory of the host
  int segments_left = 0;    // when its communicator has gone
  int descriptors_left = 0;  // more than before the job
  int64_t lost = 0;         // connections
};
using Rank = Child<Report>;

int mapped_segments() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    count += line.find("memfd:nezha") != std::string::npos ? 1 : 0;
  }
  return count;
}

ptrdiff_t files_in_shared_memory() {
  const auto files = std::filesystem::directory_iterator("/dev/shm");
  return std::distance(begin(files), end(files));
}

context::ContextRequest sharing(int rank, int ranks, const std::string& store) {
  context::ContextRequest request = request_of(rank, ranks, store, 2);
  request.config += "shm=on\n";
  return request;
}

// Reduces `repeats` times, or until it fails.
Status reduce_on(context::Communicator& comm, uint64_t count, int repeats) {
  std::vector<float> data(count, 0.0F);
  for (int i = 0; i < repeats; ++i) {
    NEZHA_RETURN_IF_ERROR(comm.all_reduce(data.data(), data.data(), count, Dtype::float32, ReduceOp::sum,
                                          {}, nullptr));
  }
  return Status::ok();
}

void live(int rank, int ranks, int victim, uint64_t count, const std::string& store,
          const Rank::Pipe& pipe) {
  Report report;
  const int before = open_descriptors();
  {
    auto comm = join(sharing(rank, ranks, store));
    report.segments = mapped_segments();
    Status outcome = comm.status();
    if (comm) outcome = reduce_on(**comm, count, 3);
    if (comm) report.in_memory = json_number((*comm)->context().stats_json(), "memory_bytes_sent");
    report.code = outcome.code();
    pipe.tell(report);
    if (!outcome) return;
    outcome = reduce_on(**comm, count, 1 << 30);
    report.code = outcome.code();
    report.names_victim =
        outcome.message().find("lost rank " + std::to_string(victim)) != std::string::npos;
  }
  report.segments_left = mapped_segments();
  report.descriptors_left = open_descriptors() - before;
  pipe.tell(report);
}

class ShmRankDies : public ::testing::TestWithParam<uint64_t> {};

TEST_P(ShmRankDies, IsNamedAndLeavesNothing) {
  constexpr int kRanks = 4;
  constexpr int kVictim = 2;
  const TempDirectory directory;
  const ptrdiff_t files = files_in_shared_memory();
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.push_back(std::make_unique<Rank>([&](const Rank::Pipe& pipe) {
      live(rank, kRanks, kVictim, GetParam(), "file://" + directory.path(), pipe);
    }));
  }
  Report report;
  for (const auto& rank : ranks) {
    ASSERT_TRUE(rank->next(&report));
    ASSERT_EQ(report.code, Code::ok);
    EXPECT_EQ(report.segments, 2 * (kRanks - 1) + 1);  // one a rail and peer, and the host's
    EXPECT_GE(report.in_memory, static_cast<int64_t>(3 * GetParam() * sizeof(float) * 3 / 4));
  }
  ranks[kVictim]->signal(SIGKILL);
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == kVictim) continue;
    ASSERT_TRUE(ranks[static_cast<size_t>(rank)]->next(&report)) << "rank " << rank << " hangs";
    EXPECT_EQ(report.code, Code::peer_lost);
    EXPECT_TRUE(report.names_victim);
    EXPECT_EQ(report.segments_left, 0);
    EXPECT_EQ(report.descriptors_left, 0);
  }
  EXPECT_EQ(files_in_shared_memory(), files);
}

INSTANTIATE_TEST_SUITE_P(Elements, ShmRankDies, ::testing::Values(10, 1'000'000));

class ShmRankStops : public ::testing::TestWithParam<uint64_t> {};

TEST_P(ShmRankStops, CostsNobodyAnError) {
  constexpr int kRanks = 3;
  const TempDirectory directory;
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.push_back(std::make_unique<Rank>([&, rank](const Rank::Pipe& pipe) {
      Report report;
      auto comm = join(sharing(rank, kRanks, "file://" + directory.path()));
      report.code = comm.status().code();
      report.segments = mapped_segments();
      pipe.tell(report);
      if (!comm) return;
      // All ranks end at the same time.
      for (double over = 0; report.code == Code::ok && over == 0;) {
        over = access((directory.path() + "/over").c_str(), F_OK) == 0 ? 1 : 0;
        Status outcome = reduce_on(**comm, GetParam(), 1);
        if (outcome) {
          outcome = (*comm)->all_reduce(&over, &over, 1, Dtype::float64, ReduceOp::sum, {}, nullptr);
        }
        report.code = outcome.code();
      }
      report.lost = json_number((*comm)->context().stats_json(), "endpoints_lost");
      report.in_memory = json_number((*comm)->context().stats_json(), "memory_bytes_sent");
      pipe.tell(report);
    }));
  }
  Report report;
  for (const auto& rank : ranks) {
    ASSERT_TRUE(rank->next(&report));
    ASSERT_EQ(report.segments, 2 * (kRanks - 1) + 1);
  }
  for (const int milliseconds : {20, 300, 1500}) {
    ranks[1]->signal(SIGSTOP);
    usleep(static_cast<useconds_t>(milliseconds) * 1000);
    ranks[1]->signal(SIGCONT);
    usleep(50'000);
  }
  std::ofstream(directory.path() + "/over") << "yes";
  for (const auto& rank : ranks) {
    ASSERT_TRUE(rank->next(&report));
    EXPECT_EQ(report.code, Code::ok);
    EXPECT_EQ(report.lost, 0);
    EXPECT_GT(report.in_memory, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Elements, ShmRankStops, ::testing::Values(10, 300'000));

// A child of a rank has neither the memory nor the socket: the others see the rank end though it lives
// on.
TEST(ShmFork, AChildKeepsNothingAndDisturbsNobody) {
  World world({.ranks = 2, .rails = 2, .config = "shm=on\n"});
  ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
  EXPECT_EQ(mapped_segments(), 6);  // both ends of two rails, and of the host's memory
  Child<Report> child([](const Child<Report>::Pipe& pipe) {
    Report report;
    report.segments = mapped_segments();
    pipe.tell(report);
  });
  Report report;
  ASSERT_TRUE(child.next(&report));
  EXPECT_EQ(report.segments, 0);
  for (const Status& each : world.run([](Member& me) { return use(*me.comm); })) {
    EXPECT_TRUE(each.is_ok()) << each.to_string();
  }
}

TEST(ShmStatistics, BytesInMemoryAreCountedApart) {
  for (const bool shared : {true, false}) {
    World world({.ranks = 2, .rails = 1, .config = shared ? "algorithm=ring\nshm=on\n" : "shm=off\n"});
    for (const Status& each : world.run([](Member& me) { return use(*me.comm); })) {
      ASSERT_TRUE(each.is_ok()) << each.to_string();
    }
    const auto json = parse_json(world.comm(0).context().rails_json());
    ASSERT_TRUE(json.is_ok());
    const JsonValue& rail = json.value().at("rails").items().at(0);
    const int64_t sent = rail.at("bytes_sent").integer_or(-1);
    EXPECT_GT(sent, 4000);
    EXPECT_EQ(rail.at("shm_bytes_sent").integer_or(-1), shared ? sent : 0);
    EXPECT_EQ(rail.at("shm_bytes_received").integer_or(-1),
              shared ? rail.at("bytes_received").integer_or(-2) : 0);
    const std::string path(rail.at("peers").items().at(0).at("path").string_or(""));
    EXPECT_EQ(path.find("shared memory with rank 1") != std::string::npos, shared) << path;
  }
}

// ------------------------------------------------------------------- where memory cannot be passed

// No file may be as large as the memory that two ranks share.
class SmallFiles {
 public:
  SmallFiles() {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    rlimit small = before_;
    small.rlim_cur = 512 * 1024;
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  }
  ~SmallFiles() { setrlimit(RLIMIT_FSIZE, &before_); }
  SmallFiles(const SmallFiles&) = delete;
  SmallFiles& operator=(const SmallFiles&) = delete;

 private:
  rlimit before_{};
};

TEST(ShmFallback, LoopbackIsUsedInstead) {
  const SmallFiles limit;
  const CapturedLog log;
  World world({.ranks = 3, .rails = 1,
               .config = "shm=auto\nlog_level=warn\nlog_file=" + log.path() + "\n"});
  ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
  EXPECT_EQ(mapped_segments(), 0);
  EXPECT_EQ(world.comm(0).context().rails_json().find("shared memory"), std::string::npos);
  EXPECT_EQ(log.lines(" shm: ").size(), 1U);
  EXPECT_EQ(log.lines("cannot share memory: the limit of file sizes (ulimit -f)").size(), 1U);
  for (const Status& each : world.run([](Member& me) { return use(*me.comm); })) {
    EXPECT_TRUE(each.is_ok()) << each.to_string();
  }
}

TEST(ShmFallback, IsAnErrorWhereMemoryIsRequired) {
  const SmallFiles limit;
  World world({.ranks = 2, .rails = 1, .config = "shm=on\n"});
  EXPECT_EQ(world.status().code(), Code::peer_lost);
  for (const char* words : {"no shared memory with that rank of this host", "ulimit -f", "shm=auto"}) {
    EXPECT_NE(world.status().message().find(words), std::string::npos) << world.status().to_string();
  }
}

}  // namespace
}  // namespace nezha::testing
