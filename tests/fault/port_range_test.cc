// A range of no more ports than the ranks of a host need serves one job after the other, however their
// ranks end.
#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "support/child.h"
#include "support/sockets.h"

namespace nezha::testing {
namespace {

constexpr int kJobs = 50;
constexpr int kPair = 2;

using JobRank = Child<Code>;

TEST(PortRange, ServesOneJobAfterTheOther) {
  const std::string host = fresh_host();
  const std::string store = "tcp://" + host + ":" + std::to_string(free_port_of(host));
  const std::string config = "shm=off\nlog_level=error\nrails=" + host + "/32\nbind_ports=20530-" +
                             std::to_string(20530 + 2 * kPair - 1) + "\n";
  const auto work = [&](int rank, const JobRank::Pipe& pipe) {
    context::ContextRequest request = request_of(rank, kPair, store);
    request.config = config;
    auto comm = join(request);
    pipe.tell(comm ? use(**comm).code() : comm.status().code());
    if (comm) (void)(*comm)->barrier({}, nullptr);  // in which a killed rank is
  };
  for (int job = 0; job < kJobs; ++job) {
    JobRank first([&](const JobRank::Pipe& pipe) { work(0, pipe); });
    JobRank second([&](const JobRank::Pipe& pipe) { work(1, pipe); });
    Code one = Code::internal;
    Code other = Code::internal;
    ASSERT_TRUE(first.next(&one) && second.next(&other));
    ASSERT_EQ(one, Code::ok) << "job " << job;
    ASSERT_EQ(other, Code::ok) << "job " << job;
    if (job % 3 == 1) first.signal(SIGKILL);
    if (job % 3 == 2) second.signal(SIGKILL);
    first.wait();
    second.wait();
  }
}

}  // namespace
}  // namespace nezha::testing
