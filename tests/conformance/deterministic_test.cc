// deterministic=on: sums of floating point have the same bits wherever the ranks are and over however
// many rails they talk. Hosts are told apart by `host_id`: all are this one.
#include <gtest/gtest.h>

#include "support/all_reduce_case.h"
#include "support/cases.h"
#include "support/world.h"

namespace nezha::testing {
namespace {

constexpr int kRanks = 6;

struct Place {
  std::vector<int> hosts;  // by rank
  int rails = 1;
  std::string config;
};

// One host with memory and without it, hosts alike, ranks in turn, hosts that differ, and each alone.
const std::vector<Place> kPlaces = {
    {{0, 1, 2, 3, 4, 5}, 2, ""},
    {{0, 0, 0, 0, 0, 0}, 1, "shm=on\n"},
    {{0, 0, 0, 0, 0, 0}, 2, "shm=off\n"},
    {{0, 0, 0, 1, 1, 1}, 2, "shm=on\n"},
    {{0, 1, 0, 1, 0, 1}, 3, "shm=off\n"},
    {{0, 0, 1, 2, 2, 2}, 1, "shm=on\nchunk_bytes=4096\n"},
};

// A call of one of the collectives that add up, on the data of an all_reduce.
struct Sum {
  Collective collective = Collective::all_reduce;
  AllReduceCase at;

  std::string name() const { return std::string(name_of(collective)) + " of " + at.name(); }
};

constexpr int kRoot = 1;

Status call(Sum& sum, context::Communicator& comm, int rank) {
  AllReduceCase& at = sum.at;
  const std::byte* in = at.inputs[static_cast<size_t>(rank)].data();
  std::byte* out = at.outputs[static_cast<size_t>(rank)].data();
  switch (sum.collective) {
    case Collective::reduce_scatter:
      return comm.reduce_scatter(in, out, at.count / kRanks, at.dtype, at.op, {}, nullptr);
    case Collective::reduce: return comm.reduce(in, out, at.count, at.dtype, at.op, kRoot, {}, nullptr);
    default: return comm.all_reduce(in, out, at.count, at.dtype, at.op, {}, nullptr);
  }
}

std::vector<Sum> all_sums() {
  std::vector<Sum> sums;
  for (const Collective collective :
       {Collective::all_reduce, Collective::reduce, Collective::reduce_scatter}) {
    for (const Dtype dtype : reference::kFloats) {
      for (const uint64_t count : {uint64_t{6}, uint64_t{6 * 501}, uint64_t{6 * 8'009}}) {
        Sum sum{collective, {}};
        sum.at.dtype = dtype;
        sum.at.op = count == 6 ? ReduceOp::avg : ReduceOp::sum;
        sum.at.count = count;
        fill_unevenly(sum.at, kRanks, count);
        sums.push_back(std::move(sum));
      }
    }
  }
  return sums;
}

WorldOptions at_place(const Place& place, const std::string& config) {
  return {.ranks = kRanks, .rails = place.rails, .config = config + place.config, .hosts = place.hosts};
}

// The results of these calls there.
std::vector<Sum> sums_at(const Place& place, const std::string& config, std::vector<Sum> sums) {
  World world(at_place(place, config));
  const Status outcome = call_all(world, sums);
  EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
  return sums;
}

bool same_bits(const Sum& a, const Sum& b) {
  return a.collective == Collective::reduce ? a.at.outputs[kRoot] == b.at.outputs[kRoot]
                                            : a.at.outputs == b.at.outputs;
}

TEST(Deterministic, SumsHaveTheSameBitsOnAllLayouts) {
  const std::vector<Sum> sums = all_sums();
  const std::vector<Sum> first = sums_at(kPlaces[0], "deterministic=on\n", sums);
  size_t differ_by_default = 0;
  for (size_t place = 1; place < kPlaces.size(); ++place) {
    const std::vector<Sum> fixed = sums_at(kPlaces[place], "deterministic=on\n", sums);
    const std::vector<Sum> free = sums_at(kPlaces[place], "", sums);
    for (size_t i = 0; i < first.size(); ++i) {
      EXPECT_TRUE(same_bits(fixed[i], first[i])) << first[i].name() << " at place " << place;
      differ_by_default += same_bits(free[i], first[i]) ? 0 : 1;
    }
  }
  EXPECT_GT(differ_by_default, first.size());
}

// Integers have the same bits in every order, and so go by host and through memory all the same.
TEST(Deterministic, IntegersGoByHost) {
  for (const auto& [place, algorithm] : {std::pair(1, "memory"), {3, "hierarchical"}}) {
    World world(at_place(kPlaces[static_cast<size_t>(place)], "deterministic=on\n"));
    std::vector<AllReduceCase> cases(1);
    cases[0].dtype = Dtype::int32;
    cases[0].count = uint64_t{1} << 20;
    fill(cases[0], kRanks, 5);
    EXPECT_EQ(run_cases(world, cases), "");
    EXPECT_EQ(algorithms_used(world.comm(0)), std::set<std::string>{algorithm});
  }
}

void expect_refused(Algorithm algorithm, const std::string& followed) {
  World world(at_place(kPlaces[3], "deterministic=on\n"));
  const auto outcomes = world.run([&](Member& self) {
    std::vector<float> data(1000, 1);
    context::CallOptions options;
    options.algorithm = algorithm;
    const Status refused = self.comm->all_reduce(data.data(), data.data(), data.size(), Dtype::float32,
                                                 ReduceOp::sum, options, nullptr);
    EXPECT_EQ(refused.code(), Code::unsupported) << refused.to_string();
    EXPECT_NE(refused.message().find("follows from " + followed + ", which deterministic=on excludes"),
              std::string::npos) << refused.message();
    return self.comm->all_reduce(data.data(), data.data(), data.size(), Dtype::float32, ReduceOp::sum, {},
                                 nullptr);
  });
  for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
}

TEST(Deterministic, RefusesAnOrderThatFollowsFromTheHosts) {
  expect_refused(Algorithm::hierarchical, "the hosts");
}

// Six ranks have a factor of three.
TEST(Deterministic, RefusesAnOrderThatFollowsFromTheChunks) {
  expect_refused(Algorithm::bcube, "chunk_bytes and the number of rails");
}

}  // namespace
}  // namespace nezha::testing
