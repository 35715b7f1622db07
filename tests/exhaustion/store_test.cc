// A store server whose thread runs out of memory: its clients connect again, or hear what ran out. A
// server that gets no descriptor says so.
#include <gtest/gtest.h>

#include <optional>

#include "exhaustion/faults.h"
#include "rendezvous/tcp_store.h"

namespace nezha::testing {
namespace {

using rendezvous::Store;
using rendezvous::StoreAddress;
using rendezvous::StoreKey;
using rendezvous::TcpServer;

constexpr long kNever = 1L << 40;

// A store's whole life while the `nth` allocation of its server's thread fails.
Status serve_and_ask(long nth, const std::optional<StoreKey>& key) {
  auto server = TcpServer::start("127.0.0.1", 0, rendezvous::kServerMemoryBytes, "", key);
  if (!server) return server.status();
  StoreAddress address;
  address.host = "127.0.0.1";
  address.port = (*server)->port();
  arm(Resource::memory, nth);
  const Nanoseconds deadline = system_clock().now() + 20 * kSecond;
  auto store = rendezvous::open_tcp_store(address, nullptr, deadline, key);
  Status outcome = store.status();
  if (store) outcome = (*store)->set("key", "value", deadline);
  disarm();
  return outcome;
}

class StoreServer : public ::testing::TestWithParam<bool> {};

TEST_P(StoreServer, EveryAllocationOfItFailsOnce) {
  exempt(true);
  std::optional<StoreKey> key;
  if (GetParam()) key.emplace();
  ASSERT_TRUE(serve_and_ask(kNever, key));
  const long all = calls(Resource::memory);
  ASSERT_GT(all, 0);
  int met = 0;
  for (long nth = 1; nth <= all; ++nth) {
    const Status outcome = serve_and_ask(nth, key);
    met += failures() > 0 ? 1 : 0;
    EXPECT_TRUE(outcome.is_ok() || outcome.code() == Code::exhausted)
        << "allocation " << nth << ": " << outcome.to_string() << first_failure();
  }
  EXPECT_EQ(met, all);
}

TEST(StoreServerStart, WithoutADescriptorSaysWhatRanOut) {
  exempt(false);
  arm(Resource::descriptor, kNever);
  ASSERT_TRUE(TcpServer::start("127.0.0.1", 0));
  const long all = calls(Resource::descriptor);
  ASSERT_GT(all, 0);
  for (long nth = 1; nth <= all; ++nth) {
    arm(Resource::descriptor, nth);
    const Status outcome = TcpServer::start("127.0.0.1", 0).status();
    disarm();
    EXPECT_EQ(failures(), 1) << "descriptor " << nth;
    EXPECT_NE(outcome.message().find("Too many open files"), std::string::npos)
        << "descriptor " << nth << ": " << outcome.to_string();
  }
}

INSTANTIATE_TEST_SUITE_P(All, StoreServer, ::testing::Bool(),
                         [](const auto& which) { return which.param ? "with_a_key" : "open"; });

}  // namespace
}  // namespace nezha::testing
