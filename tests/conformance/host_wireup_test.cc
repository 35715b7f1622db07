// How the ranks of one host come to the memory of their collectives: all of them have the same, each
// hears its own bell, and where one does not come nobody has it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "context/host_wireup.h"
#include "support/sockets.h"
#include "support/watchdog.h"
#include "transport/shm/shm_socket.h"
#include "wire/handshake.h"

namespace nezha::context {
namespace {

using Outcome = Result<memory::Host>;

constexpr Nanoseconds kPatience = 10 * kSecond;
constexpr Nanoseconds kImpatience = 300 * kMillisecond;

transport::MeshRequest request_of(int rank, const std::vector<std::string>& hosts) {
  transport::MeshRequest request;
  request.rank = rank;
  request.job = static_cast<uint64_t>(getpid());
  request.secret = wire::secret_from_text("a secret of this test");
  for (size_t each = 0; each < hosts.size(); ++each) {
    request.ranks.push_back({static_cast<int>(each), hosts[each], {}});
  }
  return request;
}

// Each of them in its own thread; `apart`: for each, with whom it shares no memory.
std::vector<Outcome> wire_up(const std::vector<transport::MeshRequest>& requests, Nanoseconds patience,
                             std::vector<std::vector<int>> apart = {}) {
  apart.resize(requests.size());
  std::vector<Outcome> outcomes;
  for (size_t i = 0; i < requests.size(); ++i) outcomes.emplace_back(error(Code::internal, "nothing"));
  std::vector<std::thread> threads;
  const Clock& clock = system_clock();
  for (size_t i = 0; i < requests.size(); ++i) {
    threads.emplace_back(
        [&, i] { outcomes[i] = wire_up_host(requests[i], apart[i], clock, clock.now() + patience); });
  }
  for (std::thread& each : threads) each.join();
  return outcomes;
}

TEST(HostWireup, AllShareOneMemoryAndHearTheirBells) {
  const int before = testing::open_descriptors();
  {
    const std::vector<std::string> hosts = {"other", "here", "here", "other", "here"};
    std::vector<Outcome> outcomes =
        wire_up({request_of(1, hosts), request_of(2, hosts), request_of(4, hosts)}, kPatience);
    for (size_t i = 0; i < outcomes.size(); ++i) {
      ASSERT_TRUE(outcomes[i].is_ok()) << outcomes[i].status().to_string();
      EXPECT_EQ(outcomes[i]->ranks, (std::vector<int>{1, 2, 4}));
      EXPECT_EQ(outcomes[i]->index, static_cast<int>(i));
      outcomes[i]->memory->data()[i] = static_cast<std::byte>(i + 1);
    }
    for (size_t i = 0; i < outcomes.size(); ++i) {
      for (size_t other = 0; other < outcomes.size(); ++other) {
        EXPECT_EQ(outcomes[i]->memory->data()[other], static_cast<std::byte>(other + 1));
        if (other == i) continue;
        const uint64_t rings = 10 * i + other + 1;
        ASSERT_EQ(write(outcomes[i]->bells[other].get(), &rings, sizeof(rings)), 8);
        uint64_t heard = 0;
        ASSERT_EQ(read(outcomes[other]->bells[other].get(), &heard, sizeof(heard)), 8);
        EXPECT_EQ(heard, rings);
      }
    }
  }
  EXPECT_EQ(testing::open_descriptors(), before);
}

// Flags of a descriptor that several processes have belong to all of them: a member makes what it has of
// another's bell block, and fills it.
TEST(HostWireup, AMemberThatFillsABellKeepsNobodyInTheSystem) {
  const std::vector<std::string> hosts(3, "here");
  std::vector<Outcome> outcomes =
      wire_up({request_of(0, hosts), request_of(1, hosts), request_of(2, hosts)}, kPatience);
  for (const Outcome& each : outcomes) ASSERT_TRUE(each.is_ok()) << each.status().to_string();
  const Descriptor copy(dup(outcomes[2]->bells[0].get()));  // passed by the lowest rank, as rank 1's was
  memory::HostMemory first(std::move(*outcomes[0]));
  memory::HostMemory second(std::move(*outcomes[1]));
  memory::Area* const sleeper = first.area_of(1, {0, 1});
  memory::Area* const ringer = second.area_of(1, {0, 1});
  ASSERT_TRUE(sleeper != nullptr && ringer != nullptr);
  ASSERT_EQ(fcntl(copy.get(), F_SETFL, O_NONBLOCK), 0);
  const uint64_t most = UINT64_MAX - 1;  // of an eventfd
  while (write(copy.get(), &most, sizeof(most)) > 0) {
  }
  ASSERT_EQ(errno, EAGAIN);  // it is full
  ASSERT_EQ(fcntl(copy.get(), F_SETFL, 0), 0);
  testing::Watchdog watchdog("ringing a full bell", 1);
  sleeper->sleep(0b10);
  ringer->set_posted(1);  // rings, and comes back
}

// What a member passes as its bell could block whoever rings it: a pipe, say.
TEST(HostWireup, OnlyABellIsTakenForOne) {
  auto bell = memory::make_bell();
  ASSERT_TRUE(bell.is_ok());
  EXPECT_TRUE(memory::is_bell(bell->rings));
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  for (const int other : {pipe_ends[0], pipe_ends[1], eventfd(0, 0), socket(AF_UNIX, SOCK_STREAM, 0),
                          socket(AF_INET, SOCK_DGRAM, 0)}) {
    EXPECT_FALSE(memory::is_bell(Descriptor(other)));
  }
  EXPECT_FALSE(memory::is_bell(Descriptor()));
}

TEST(HostWireup, WithoutOneNobodyHasIt) {
  const std::vector<std::string> hosts(4, "here");
  const std::vector<Outcome> outcomes =
      wire_up({request_of(0, hosts), request_of(1, hosts), request_of(3, hosts)}, kImpatience);
  for (const Outcome& each : outcomes) EXPECT_EQ(each.status().code(), Code::unsupported);
  EXPECT_NE(outcomes[0].status().message().find("rank 2 of this host did not come"), std::string::npos)
      << outcomes[0].status().message();
}

// Connections have found out before, as between network namespaces with one `host_id`: the lowest rank
// knows with whom it shares none, and tells the rest of them, who need not wait until it is too late.
TEST(HostWireup, NobodyWaitsForWhoCannotShare) {
  const std::vector<std::string> hosts(3, "here");
  const Nanoseconds begin = system_clock().now();
  const std::vector<Outcome> outcomes =
      wire_up({request_of(0, hosts), request_of(1, hosts), request_of(2, hosts)}, 600 * kSecond,
              {{2}, {}, {0}});
  for (const Outcome& each : outcomes) EXPECT_EQ(each.status().code(), Code::unsupported);
  for (const size_t rank : {0, 2}) {
    EXPECT_NE(outcomes[rank].status().message().find("shares no memory with rank"), std::string::npos)
        << outcomes[rank].status().message();
  }
  EXPECT_LT(system_clock().now() - begin, 300 * kSecond);
}

TEST(HostWireup, WithoutTheOneWhoMakesItNobodyHasIt) {
  const std::vector<std::string> hosts(3, "here");
  const std::vector<Outcome> outcomes =
      wire_up({request_of(1, hosts), request_of(2, hosts)}, kImpatience);
  for (const Outcome& each : outcomes) EXPECT_FALSE(each.is_ok());
}

// Whoever finds the socket's name (/proc/net/unix) can connect, say nothing, and stay.
TEST(HostWireup, SilentCallersKeepNobodyWaiting) {
  const std::vector<std::string> hosts(3, "here");
  const transport::MeshRequest lowest = request_of(0, hosts);
  const wire::Mac mac = wire::channel_mac_of(
      lowest.secret, "memory of a host: name " + std::to_string(lowest.job) + " 0 0");
  transport::ShmName name;
  std::memcpy(name.data(), mac.data(), name.size());
  Outcome leads = error(Code::internal, "nothing");
  std::thread leader([&] {
    leads = wire_up_host(lowest, {}, system_clock(), system_clock().now() + kPatience);
  });
  std::vector<Descriptor> callers;
  const Nanoseconds until = system_clock().now() + kPatience / 2;
  while (callers.size() < 100 && system_clock().now() < until) {
    auto caller = transport::connect_to(name);
    if (caller) callers.push_back(std::move(*caller));
  }
  EXPECT_EQ(callers.size(), 100U);
  for (const Outcome& each : wire_up({request_of(1, hosts), request_of(2, hosts)}, kPatience)) {
    EXPECT_TRUE(each.is_ok()) << each.status().to_string();
  }
  leader.join();
  EXPECT_TRUE(leads.is_ok()) << leads.status().to_string();
}

// Another run's secret gives another name for the socket, and another run's number, too.
TEST(HostWireup, OnlyRanksOfTheRunFindIt) {
  const std::vector<std::string> hosts(2, "here");
  transport::MeshRequest other = request_of(1, hosts);
  other.secret = wire::secret_from_text("another secret");
  for (const Outcome& each : wire_up({request_of(0, hosts), other}, kImpatience)) {
    EXPECT_FALSE(each.is_ok());
  }
  other = request_of(1, hosts);
  ++other.job;
  for (const Outcome& each : wire_up({request_of(0, hosts), other}, kImpatience)) {
    EXPECT_FALSE(each.is_ok());
  }
}

}  // namespace
}  // namespace nezha::context
