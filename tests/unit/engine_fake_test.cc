// The engine without a network: every frame is moved by hand, so that a connection can be lost at
// any point and what follows is the same in every run.
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "support/fake_world.h"

namespace nezha::engine {
namespace {

using nezha::testing::FakeWorld;
using nezha::testing::FakeWorldOptions;

// One operation of all ranks: whole numbers, so that their sum is exact in every order.
class Operation {
 public:
  Operation(FakeWorld& world, int ranks, size_t count)
      : world_(world), in_(ranks), out_(ranks), work_(ranks) {
    expected_.resize(count);
    for (size_t rank = 0; rank < in_.size(); ++rank) {
      in_[rank].resize(count);
      for (size_t i = 0; i < count; ++i) {
        in_[rank][i] = static_cast<float>((i * 31 + rank * 17) % 1000);
        expected_[i] += in_[rank][i];
      }
      out_[rank].assign(count, -1);
    }
  }

  // The engines let go of the buffers, also when a test ends in the middle.
  ~Operation() {
    for (size_t rank = 0; rank < work_.size() && !done(); ++rank) {
      const int at = static_cast<int>(rank);
      world_.engine(at).failures().fail(world_.group(at), error(Code::aborted, "the test ended"),
                                        false);
    }
    world_.run_engines();
  }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  Status all_reduce(int rank) {
    OpRequest request;
    request.algorithm = Algorithm::ring;
    request.in = in_[static_cast<size_t>(rank)].data();
    request.out = out_[static_cast<size_t>(rank)].data();
    request.count = expected_.size();
    return world_.engine(rank).submit(world_.group(rank), request, work(rank));
  }
  Status broadcast(int rank) {
    OpRequest request;
    request.collective = Collective::broadcast;
    request.algorithm = Algorithm::tree;
    auto& buffer = rank == 0 ? in_[0] : out_[static_cast<size_t>(rank)];
    request.in = request.out = buffer.data();
    request.count = expected_.size();
    return world_.engine(rank).submit(world_.group(rank), request, work(rank));
  }
  void all_reduce_everywhere() {
    for (size_t rank = 0; rank < in_.size(); ++rank) {
      ASSERT_TRUE(all_reduce(static_cast<int>(rank)).is_ok());
    }
  }
  Work& work(int rank) { return work_[static_cast<size_t>(rank)]; }
  bool done() const {
    for (const Work& work : work_) {
      if (!work.is_done()) return false;
    }
    return true;
  }
  // Every rank has the sum, bit for bit.
  void expect_sum() const {
    for (size_t rank = 0; rank < out_.size(); ++rank) {
      EXPECT_TRUE(work_[rank].status().is_ok()) << work_[rank].status().to_string();
      EXPECT_EQ(std::memcmp(out_[rank].data(), expected_.data(), expected_.size() * sizeof(float)),
                0) << "rank " << rank;
    }
  }
  void expect_copy(int rank) const { EXPECT_EQ(out_[static_cast<size_t>(rank)], in_[0]); }

 private:
  FakeWorld& world_;
  std::vector<std::vector<float>> in_;
  std::vector<std::vector<float>> out_;
  std::vector<Work> work_;
  std::vector<float> expected_;
};

TEST(EngineFake, AllReduceOverTwoRailsIsRightInEveryBit) {
  for (const int ranks : {2, 3}) {
    FakeWorldOptions options;
    options.ranks = ranks;
    FakeWorld world(options);
    for (const size_t count : {1UL, 1000UL, 20'001UL}) {
      Operation sum(world, ranks, count);
      sum.all_reduce_everywhere();
      ASSERT_TRUE(world.run_until([&] { return sum.done(); })) << count;
      sum.expect_sum();
    }
    for (const Link& link : world.engine(0).peers()[1]->links()) {
      EXPECT_GT(link.connection->counters().frames_sent, 0U);
    }
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(world.engine(rank).counters().retransmitted, 0U);
      EXPECT_EQ(world.group(rank).counters.duplicates, 0U);
    }
  }
}

TEST(EngineFake, CallersPollForShortOperationsOnly) {
  using progress::Polling;
  FakeWorld world({});
  // In 2.5 ms the 125 MB/s of both rails carry 312,500 bytes.
  for (const size_t count : {78'125, 78'126}) {
    EXPECT_EQ(world.engine(0).polling(), Polling::callers);
    Operation operation(world, 2, count);
    operation.all_reduce_everywhere();
    world.run_engines();
    EXPECT_EQ(world.engine(0).polling(), count == 78'125 ? Polling::callers : Polling::nobody);
    EXPECT_TRUE(world.run_until([&] { return operation.done(); }));
  }
  EXPECT_EQ(world.engine(0).polling(), Polling::callers);
}

// Each rail once by the look of the turn and once by the dispatch, however many transfers that posts.
TEST(EngineFake, KernelsAreAskedForBacklogsOnceForADispatch) {
  FakeWorldOptions options;
  FakeWorld world(options);
  Operation sum(world, 2, 20'001);
  sum.all_reduce_everywhere();
  for (const int rail : {0, 1}) {
    const Link& link = *std::next(world.engine(0).peers()[1]->links().begin(), rail);
    EXPECT_GE(link.connection->counters().frames_sent, 3U) << rail;
    EXPECT_LE(world.link(0, 1, rail).questions(0), 2U) << rail;
  }
  ASSERT_TRUE(world.run_until([&] { return sum.done(); }));
  sum.expect_sum();
}

// What rank 1 heard of how the operation after one of 16 KB is divided; 0: nothing.
uint16_t announced_to_rank_1(const std::vector<int>& host_of) {
  FakeWorldOptions options;
  options.ranks = 3;
  options.policy = "pull";
  options.host_of = host_of;
  FakeWorld world(options);
  Operation sum(world, 3, 4096);
  sum.all_reduce_everywhere();
  EXPECT_TRUE(world.run_until([&] { return sum.done(); }));
  sum.expect_sum();
  uint16_t heard = 0;
  for (const auto& execution : Collectives::of(world.group(1)).idle) {
    heard = std::max(heard, execution->division().announced);
  }
  return heard;
}

// Where several share one, most messages of an operation stay inside: its time tells little of rails.
TEST(EngineFake, RankZeroDividesForAllWhereEachRankHasAHostOfItsOwn) {
  EXPECT_NE(announced_to_rank_1({}), 0);
  EXPECT_NE(announced_to_rank_1({0, 1, 2}), 0);
  EXPECT_EQ(announced_to_rank_1({0, 0, 1}), 0);
}

// Rail 0 is cut after every possible number of arrivals, each time in another order of arrivals.
TEST(EngineFake, ARailLostAtAnyFrameCostsOnlyWhatWasUnderWay) {
  uint64_t retransmitted = 0;
  uint64_t reconciled = 0;
  size_t cuts = 0;
  for (bool in_operation = true; in_operation; ++cuts) {
    FakeWorldOptions options;
    options.ranks = 3;
    FakeWorld world(options);
    Operation sum(world, 3, 10'000);
    sum.all_reduce_everywhere();
    std::mt19937_64 generator(cuts);
    for (size_t arrivals = 0; arrivals < cuts && !sum.done();) arrivals += world.step(generator());
    in_operation = !sum.done();
    world.link(0, 1, 0).cut();
    ASSERT_TRUE(world.run_until([&] { return sum.done(); }, cuts)) << "cut " << cuts;
    sum.expect_sum();
    for (const int rank : {0, 1, 2}) {
      retransmitted += world.engine(rank).counters().retransmitted;
      reconciled += world.engine(rank).supervisor().counters().reconciled;
      EXPECT_EQ(world.engine(rank).counters().connections_lost, rank == 2 ? 0U : 1U);
    }
  }
  EXPECT_GT(cuts, 50U);
  EXPECT_GT(retransmitted, 0U);
  EXPECT_GT(reconciled, 0U);  // landed, but the acknowledgement was lost: not sent again
}

TEST(EngineFake, ARailLostInTheMiddleOfAFrame) {
  FakeWorld world({});
  Operation sum(world, 2, 10'000);
  sum.all_reduce_everywhere();
  world.link(0, 1, 0).deliver_half(1);
  world.link(0, 1, 0).deliver_half(0);
  world.link(0, 1, 0).cut();
  ASSERT_TRUE(world.run_until([&] { return sum.done(); }));
  sum.expect_sum();
  EXPECT_GT(world.engine(0).counters().retransmitted, 0U);
}

// The transfer comes again on the other rail while its first copy has half landed.
TEST(EngineFake, ARetransmissionOvertakesTheLandingOfItsFirstCopy) {
  FakeWorldOptions options;
  options.weights = {1, 0};
  FakeWorld world(options);
  Operation sum(world, 2, 10'000);
  sum.all_reduce_everywhere();
  world.link(0, 1, 0).deliver_half(1);
  // Only rank 0 has noticed; rank 1 hears of it last.
  world.engine(0).peers()[1]->links().front().connection->quiesce(error(Code::peer_lost, "test"));
  world.run_engines();
  ASSERT_GT(world.link(0, 1, 1).deliver(1), 0U);
  ASSERT_TRUE(world.run_until([&] { return sum.done(); }));
  sum.expect_sum();
}

// The root of a broadcast ends when the others have said that they consumed it. Rank 1 says so on
// rail 0, and that frame is lost; everything else that it could say is said already.
TEST(EngineFake, CreditsLostWithAConnectionAreToldAgain) {
  FakeWorldOptions options;
  options.weights = {1, 0};
  FakeWorld world(options);
  Operation copy(world, 2, 100);
  ASSERT_TRUE(copy.broadcast(0).is_ok());
  ASSERT_TRUE(copy.broadcast(1).is_ok());
  ASSERT_EQ(world.link(0, 1, 0).deliver(1), 1U);
  world.run_engines();
  ASSERT_TRUE(copy.work(1).is_done());
  ASSERT_FALSE(copy.work(0).is_done());
  ASSERT_EQ(world.link(0, 1, 0).under_way(0), 1U);  // the acknowledgement with the credit
  world.link(0, 1, 0).cut();
  EXPECT_TRUE(world.run_until([&] { return copy.done(); }));
  EXPECT_TRUE(copy.work(0).status().is_ok());
  copy.expect_copy(1);
  EXPECT_EQ(world.engine(0).supervisor().counters().reconciled, 1U);
  EXPECT_EQ(world.group(1).counters.duplicates, 0U);
}

// The same for a failure: rank 1 must hear of it although the connection that carried it died.
TEST(EngineFake, AFailureLostWithAConnectionIsToldAgain) {
  FakeWorld world({});
  Operation sum(world, 2, 100);
  ASSERT_TRUE(sum.all_reduce(1).is_ok());
  world.engine(0).failures().fail(world.group(0), error(Code::aborted, "rank 0 gave up"), true);
  world.run_engines();
  world.link(0, 1, 0).cut();
  ASSERT_TRUE(world.run_until([&] { return sum.work(1).is_done(); }));
  EXPECT_EQ(sum.work(1).status().code(), Code::aborted);
  EXPECT_NE(sum.work(1).status().message().find("rank 0 gave up"), std::string::npos);
}

// A connection found dead while sending: no event comes for what it could not take, so that must be
// on the other rail when the call returns.
TEST(EngineFake, WhatADyingRailCouldNotSendLeavesAtOnceOnAnother) {
  FakeWorldOptions options;
  options.weights = {1, 0};
  options.faults.break_after_frames = 2;
  FakeWorld world(options);
  Operation sum(world, 2, 10'000);
  ASSERT_TRUE(sum.all_reduce(0).is_ok());
  ASSERT_EQ(world.faults().broken, 1U);
  EXPECT_FALSE(world.engine(0).peers()[1]->has_pending());
  EXPECT_GE(world.link(0, 1, 1).under_way(1), 2U);
  ASSERT_TRUE(sum.all_reduce(1).is_ok());
  ASSERT_TRUE(world.run_until([&] { return sum.done(); }));
  sum.expect_sum();
  EXPECT_GE(world.engine(0).counters().retransmitted, 2U);
}

// The same when the rail had nothing new to take and only an acknowledgement finds it dead. The peer
// does not say what landed, so everything leaves again.
TEST(EngineFake, WhatADyingRailHadUnderWayLeavesSoonOnAnother) {
  FakeWorldOptions options;
  options.weights = {1, 0};
  options.faults.break_at_send = 2;
  FakeWorld world(options);
  Operation sum(world, 2, 10'000);
  ASSERT_TRUE(sum.all_reduce(0).is_ok());
  const size_t under_way = world.link(0, 1, 0).under_way(1);
  ASSERT_GT(under_way, 0U);
  ASSERT_EQ(world.faults().sends, 1U);
  world.engine(0).peers()[1]->links().front().connection->acknowledge(options.comm);
  world.engine(0).run(world.clock().now());
  ASSERT_EQ(world.faults().broken, 1U);
  EXPECT_TRUE(world.engine(0).peers()[1]->has_unresolved());
  world.clock().advance(10 * kMillisecond);
  world.engine(0).run(world.clock().now());
  EXPECT_FALSE(world.engine(0).peers()[1]->has_unresolved());
  EXPECT_FALSE(world.engine(0).peers()[1]->has_pending());
  EXPECT_GE(world.link(0, 1, 1).under_way(1), under_way);
  ASSERT_TRUE(sum.all_reduce(1).is_ok());
  ASSERT_TRUE(world.run_until([&] { return sum.done(); }));
  sum.expect_sum();
}

TEST(EngineFake, ARefusedPostIsPostedAgain) {
  FakeWorldOptions options;
  options.faults.refuse_every = 2;
  FakeWorld world(options);
  Operation sum(world, 2, 20'000);
  sum.all_reduce_everywhere();
  ASSERT_TRUE(world.run_until([&] { return sum.done(); }));
  sum.expect_sum();
  EXPECT_GT(world.faults().refused, 0U);
  EXPECT_EQ(world.engine(0).counters().retransmitted, 0U);
}

TEST(EngineFake, TheLastRailLostIsThePeerLost) {
  FakeWorld world({});
  Operation sum(world, 2, 10'000);
  sum.all_reduce_everywhere();
  world.link(0, 1, 0).cut();
  ASSERT_FALSE(sum.work(0).is_done());
  world.link(0, 1, 1).cut();
  world.run_engines();
  for (const int rank : {0, 1}) {
    ASSERT_TRUE(sum.work(rank).is_done());
    EXPECT_EQ(sum.work(rank).status().code(), Code::peer_lost);
    EXPECT_EQ(sum.work(rank).status().peer, 1 - rank);
    EXPECT_EQ(world.engine(rank).pool().bytes_in_use(), 0U);
  }
}

// Frames for an operation that is not there yet cost memory: no more of it than the credit.
TEST(EngineFake, APeerThatExceedsItsCreditIsRefused) {
  FakeWorldOptions options;
  options.credit_bytes = 64 * 1024;
  FakeWorld world(options);
  wire::FrameHeader header;
  header.comm = options.comm;
  header.length = 4096;
  const transport::Connection& connection = *world.engine(1).peers()[0]->links().front().connection;
  const uint64_t allowed = options.credit_bytes / frame_cost(header.length);
  for (uint64_t i = 0; i < allowed; ++i) {
    header.op_seq = i;
    world.link(0, 1, 0).inject(1, header);
    world.link(0, 1, 0).deliver(1);
  }
  ASSERT_TRUE(connection.is_up());
  EXPECT_EQ(world.group(1).counters.early_frames, allowed);
  const uint64_t in_use = world.engine(1).pool().bytes_in_use();
  EXPECT_GT(in_use, 0U);
  world.link(0, 1, 0).inject(1, header);
  world.link(0, 1, 0).deliver(1);
  EXPECT_FALSE(connection.is_up());
  EXPECT_EQ(world.engine(1).pool().bytes_in_use(), in_use);
  EXPECT_TRUE(world.group(1).failed.is_ok());  // the other rail is still believed
}

// With a credit for few frames the ring still gets through, and nobody is ever refused.
TEST(EngineFake, ASmallCreditOnlyMakesItSlower) {
  FakeWorldOptions options;
  options.ranks = 3;
  options.credit_bytes = 10'000;
  FakeWorld world(options);
  Operation sum(world, 3, 30'000);
  sum.all_reduce_everywhere();
  ASSERT_TRUE(world.run_until([&] { return sum.done(); }));
  sum.expect_sum();
  for (const int rank : {0, 1, 2}) EXPECT_EQ(world.engine(rank).counters().connections_lost, 0U);
}

// Microseconds of the processor for one of so many short operations of two ranks that are called at once.
double us_each(size_t count) {
  FakeWorld world({});
  std::vector<float> values(2 * count, 1);
  std::vector<Work> works(2 * count);
  for (size_t i = 0; i < 2 * count; ++i) {
    OpRequest request;
    request.in = request.out = &values[i];
    request.count = 1;
    const int rank = i < count ? 0 : 1;
    EXPECT_TRUE(world.engine(rank).submit(world.group(rank), request, works[i]).is_ok());
  }
  timespec before{};
  timespec after{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
  size_t done = 0;
  EXPECT_TRUE(world.run_until([&] {
    EXPECT_EQ(world.engine(0).polling(), progress::Polling::callers);  // as the loop asks in each turn
    while (done < works.size() && works[done].is_done()) ++done;
    return done == works.size();
  }));
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
  EXPECT_EQ(values, std::vector<float>(2 * count, 2));
  const double took = 1e6 * static_cast<double>(after.tv_sec - before.tv_sec) +
                      1e-3 * static_cast<double>(after.tv_nsec - before.tv_nsec);
  return took / static_cast<double>(count);
}

// A walk over those that wait would take 20 times as long for each.
TEST(EngineFake, OperationsThatWaitDoNotSlowDownThoseThatRun) {
  const double few = std::min({us_each(1000), us_each(1000), us_each(1000)});
  const double many = std::min(us_each(20'000), us_each(20'000));
  EXPECT_LT(many, 4 * few);
}

// Whoever can send it chose the text.
TEST(EngineFake, TheTextOfAPeersFailureIsClean) {
  FakeWorld world({});
  const Status why(Code::internal, "one\x1b[31m two \xff\xc2\x9b three\n");
  world.engine(0).failures().fail(world.group(0), why, true);
  ASSERT_TRUE(world.run_until([&] { return !world.group(1).failed.is_ok(); }));
  EXPECT_EQ(world.group(1).failed.message(), "one?[31m two ??? three?");
}

}  // namespace
}  // namespace nezha::engine
