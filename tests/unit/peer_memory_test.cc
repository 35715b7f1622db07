// What a rank keeps of another one with which it has no connection: of those a large job has thousands.
#include <gtest/gtest.h>

#include <malloc.h>

#include <cstdio>
#include <numeric>

#include "rails/policies/policies.h"
#include "engine/engine.h"
#include "transport/connect/wireup.h"
#include "transport/tcp/tcp_opener.h"

namespace nezha::testing {
namespace {

constexpr int kRanks = 5'000;
constexpr int kRails = 2;

transport::MeshRequest request_of(int ranks) {
  transport::MeshRequest request;
  request.on_demand = true;
  for (int rank = 0; rank < ranks; ++rank) {
    transport::PeerAddress peer{rank, std::to_string(rank / 8), {}};
    for (int rail = 0; rail < kRails; ++rail) {
      const std::string address = "10." + std::to_string(100 + rail) + "." + std::to_string(rank / 250) +
                                  "." + std::to_string(1 + rank % 250);
      peer.rails.push_back({"ens" + std::to_string(rail), address, 16, 9000, 1e11, "tcp", "", "port"});
    }
    request.ranks.push_back(std::move(peer));
  }
  return request;
}

// Bytes that a rank of so many takes from the heap before anybody is connected.
size_t taken_by(int ranks) {
  auto loop = progress::Loop::create(system_clock(), 0);
  EXPECT_TRUE(loop.is_ok());
  const progress::Loop::Lock lock(**loop);
  const transport::MeshRequest request = request_of(ranks);
  const struct mallinfo2 before = mallinfo2();
  engine::EngineOptions options;
  options.world_size = ranks;
  options.rails = kRails;
  options.on_demand = true;
  engine::Engine engine(**loop, options);
  engine::GroupRequest group;
  group.comm = 1;
  group.members.resize(static_cast<size_t>(ranks));
  std::iota(group.members.begin(), group.members.end(), 0);
  group.policy = std::move(*rails::make_policy("pull", {}));
  group.costs.rails = kRails;
  EXPECT_TRUE(engine.create_group(std::move(group)).is_ok());
  auto wireup = transport::Wireup::create(request, transport::tcp_opener(), **loop,
                                          {**loop, engine.connection_events()}, engine.join_events(), {});
  EXPECT_TRUE(wireup.is_ok());
  const struct mallinfo2 after = mallinfo2();
  return after.uordblks + after.hblkhd - before.uordblks - before.hblkhd;
}

TEST(PeerMemory, OfARankThatIsNotConnectedIsLessThanAKilobyte) {
  const size_t few = taken_by(kRanks);
  if (few == 0) GTEST_SKIP() << "this allocator does not say what it gave";
  const double each = static_cast<double>(taken_by(2 * kRanks) - few) / kRanks;
  std::printf("a rank keeps %.0f bytes of each that it has no connection with (%d rails)\n", each,
              kRails);
  EXPECT_LT(each, 1024);
}

}  // namespace
}  // namespace nezha::testing
