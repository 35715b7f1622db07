// A host without descriptors: nobody can be accepted, and the rails that run do not notice.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "exhaustion/faults.h"
#include "support/sockets.h"
#include "support/world.h"

namespace nezha::testing {
namespace {

constexpr std::array<const char*, 2> kRails = {"127.1.0.1", "127.2.0.1"};
constexpr long kAll = 1L << 40;

Status sum(Member& member) {
  std::vector<int32_t> data(100'000, 1);
  NEZHA_RETURN_IF_ERROR(member.comm->all_reduce(data.data(), data.data(), data.size(), Dtype::int32,
                                                ReduceOp::sum, {}, nullptr));
  if (data == std::vector<int32_t>(data.size(), member.comm->world_size())) return Status::ok();
  return error(Code::internal, "wrong sum %d", data[0]);
}

std::vector<int> connect_everywhere() {
  std::vector<int> strangers;
  for (const char* address : kRails) {
    for (const int port : listening_ports_of(address)) {
      for (int i = 0; i < 10; ++i) strangers.push_back(dial(address, port));
    }
  }
  return strangers;
}

int64_t count(World& world, const std::string& name) {
  int64_t total = 0;
  for (int rank = 0; rank < world.size(); ++rank) {
    total += json_number(world.comm(rank).context().stats_json(), name);
  }
  return total;
}

void expect_sums(World& world, const char* when) {
  for (const Status& outcome : world.run(sum)) EXPECT_TRUE(outcome) << when << outcome.to_string();
}

TEST(Accept, WithoutDescriptorsRunningRailsStayUndisturbed) {
  exempt(true);
  WorldOptions options;
  options.ranks = 3;
  options.rails = 2;
  World world(options);
  ASSERT_TRUE(world.status()) << world.status().to_string();
  expect_sums(world, "before: ");

  arm(Resource::descriptor, 1, kAll);
  const std::vector<int> strangers = connect_everywhere();
  ASSERT_FALSE(strangers.empty());
  for (const int fd : strangers) EXPECT_GE(fd, 0);
  Watchdog refusing("accept calls that fail", 1);
  while (failures() == 0) expect_sums(world, "strangers wait: ");
  for (int i = 0; i < 20; ++i) expect_sums(world, "strangers wait: ");
  EXPECT_EQ(count(world, "endpoints_lost"), 0);
  // The connection stays in its queue, and must not keep the loop awake.
  EXPECT_LT(failures(), 10'000);
  disarm();
  for (const int fd : strangers) close(fd);
}

TEST(Accept, ARailThatBreaksMeanwhileComesBackLater) {
  exempt(true);
  WorldOptions options;
  options.rails = 2;
  World world(options);
  ASSERT_TRUE(world.status()) << world.status().to_string();
  arm(Resource::descriptor, 1, kAll);
  ASSERT_GT(break_rail(kRails[1]), 0);
  Watchdog dialling("dials that fail", 1);
  while (failures() == 0 || count(world, "endpoints_lost") == 0) expect_sums(world, "one rail: ");
  EXPECT_EQ(count(world, "links_joined"), 0);
  disarm();
  while (count(world, "links_joined") == 0) expect_sums(world, "descriptors again: ");
}

}  // namespace
}  // namespace nezha::testing
