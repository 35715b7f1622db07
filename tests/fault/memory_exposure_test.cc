// What a core dump of a rank shows: not the secret that its connections are made with.
#include <gtest/gtest.h>

#include <string>

#include "base/log.h"
#include "support/memory_scan.h"
#include "support/rail_job.h"

namespace nezha::testing {
namespace {

void expect_in_no_dump(const wire::Secret& secret, const std::string& what) {
  const MemoryScan scan(secret.data(), secret.size());
  size_t looked_at = 0;
  for (const std::string& place : scan.places(&looked_at)) ADD_FAILURE() << what << " is in " << place;
  EXPECT_GT(looked_at, size_t{1} << 20) << "nearly nothing was looked at";
}

// The control: a copy like any other is found.
TEST(MemoryScanItself, FindsWhatIsThere) {
  auto secret = wire::random_secret();
  ASSERT_TRUE(secret.is_ok());
  const MemoryScan scan(secret->data(), secret->size());
  size_t looked_at = 0;
  const std::string copy(reinterpret_cast<const char*>(secret->data()), secret->size());
  EXPECT_GE(scan.places(&looked_at).size(), 1u) << copy.size();
}

class MemoryExposure : public ::testing::TestWithParam<bool> {};

TEST_P(MemoryExposure, OfARunningJobsSecretAndOfAnEndedOnes) {
  log::set_level(log::Level::error);
  wire::Secret secret, tls_key;
  {
    RailJob job({.ranks = 3, .rails = 2});
    secret = job.secret();
    tls_key = wire::tls_key_of(secret);
    for (int rank = 0; rank < 3; ++rank) job.request_of(rank).tls = GetParam();
    for (const Status& outcome : job.finish()) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
    EXPECT_EQ(job.connections_of(0), 4);
    expect_in_no_dump(secret, "the secret of a running job");
  }
  expect_in_no_dump(secret, "the secret of a job that has ended");
  expect_in_no_dump(tls_key, "the key of encrypted rails");
}

INSTANTIATE_TEST_SUITE_P(Tls, MemoryExposure, ::testing::Bool());

}  // namespace
}  // namespace nezha::testing
