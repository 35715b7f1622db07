// A crowd at every rail while a job forms, with the times that a job has by default.
#include <gtest/gtest.h>

#include "base/config.h"
#include "base/log.h"
#include "support/crowd.h"
#include "support/rail_job.h"
#include "support/stranger.h"

namespace nezha::testing {
namespace {

constexpr int kRanks = 8;
constexpr size_t kStrangers = 1000;

// Of this job, as whoever listens on the network knows it, and without a proof.
std::string some_hello(size_t number) {
  wire::Hello hello;
  hello.job = RailJob::kJob;
  hello.world_size = kRanks;
  hello.dialer_rank = static_cast<uint32_t>(number % (kRanks - 1));
  hello.acceptor_rank = kRanks - 1;
  return text_of(encoded(hello));
}

std::string talk(size_t number) {
  switch (number % 6) {
    case 0: return "GET / HTTP/1.1\r\nHost: rail\r\n\r\n";
    case 1: return some_hello(number);
    case 2: return std::string(4096, static_cast<char>(number));
    default: return "";
  }
}

// A third says a lot at once, a third a Hello byte by byte, a third nothing.
CrowdOptions crowd_at(const RailJob& job) {
  CrowdOptions options;
  for (int rank = 0; rank < kRanks; ++rank) options.ports.push_back(job.port_of(rank));
  options.per_port = kStrangers;
  options.first_words = talk;
  options.slow_words = [](size_t number) {
    return number % 6 == 3 || number % 6 == 4 ? some_hello(number) : std::string();
  };
  return options;
}

TEST(Crowd, OfAThousandAtEveryRailKeepsNoRankOut) {
  log::set_level(log::Level::error);
  RailJob job({.ranks = kRanks, .probe_timeout_s = Config().probe_timeout_s});
  const Crowd crowd(crowd_at(job));
  ASSERT_TRUE(crowd.is_there()) << crowd.came() << " strangers came";
  for (const Status& outcome : job.finish()) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(job.connections_of(rank), kRanks - 1);
  EXPECT_GE(crowd.came(), kRanks * kStrangers);
  EXPECT_GT(crowd.sent_away(), kStrangers);
}

}  // namespace
}  // namespace nezha::testing
