// What ranks tell each other of their progress: a disagreement is found without data, whatever a peer
// says does no other harm, and every communicator is spoken of.
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "base/json.h"
#include "support/fake_world.h"

namespace nezha::engine {
namespace {

using nezha::testing::FakeWorld;
using nezha::testing::FakeWorldOptions;
using wire::HeartbeatHeader;

class ProgressSuite : public ::testing::Test {
 protected:
  ProgressSuite() : world_(three_ranks()), buffer_(300), work_(8) {}
  // The engines let go of the buffer.
  ~ProgressSuite() override {
    for (int rank = 0; rank < 3; ++rank) {
      world_.engine(rank).failures().fail(world_.group(rank), error(Code::aborted, "the test ended"),
                                          false);
    }
    world_.run_engines();
  }

  static FakeWorldOptions three_ranks() {
    FakeWorldOptions options;
    options.ranks = 3;
    options.rails = 1;
    return options;
  }
  OpRequest broadcast(int root) {
    OpRequest request;
    request.collective = Collective::broadcast;
    request.algorithm = Algorithm::tree;
    request.in = request.out = buffer_.data();
    request.count = 10;
    request.root = root;
    return request;
  }
  Work& submit(int rank, const OpRequest& request) {
    Work& work = work_[next_work_++];
    EXPECT_TRUE(world_.engine(rank).submit(world_.group(rank), request, work).is_ok());
    return work;
  }
  JsonValue stragglers(int rank) {
    JsonWriter json;
    world_.engine(rank).diagnostics().write_stragglers(world_.group(rank), json);
    auto parsed = parse_json(json.text());
    EXPECT_TRUE(parsed.is_ok()) << json.text();
    return parsed ? *parsed : JsonValue();
  }

  FakeWorld world_;
  // A rank hears from a peer in which operation that one is.
  void hear(int rank, int peer, const HeartbeatHeader& said) {
    const Status differs = world_.engine(rank).diagnostics().on_heartbeat(peer, said);
    if (!differs.is_ok()) world_.engine(rank).fail(world_.group(rank), differs, true);
  }

  std::vector<float> buffer_;
  std::vector<Work> work_;
  size_t next_work_ = 0;
};

TEST_F(ProgressSuite, ADescriptionThatDiffersFailsBothNamingEverything) {
  Work& work = submit(1, broadcast(0));  // waits for rank 0, who waits for rank 1
  submit(0, broadcast(1));
  const HeartbeatHeader said = world_.engine(0).diagnostics().progress_header(0);
  EXPECT_EQ(said.progress, HeartbeatHeader::Progress::open);
  EXPECT_EQ(said.waits_for, 1);
  hear(1, 0, said);
  world_.run_engines();
  ASSERT_TRUE(work.is_done());
  EXPECT_EQ(work.status().code(), Code::mismatch);
  const std::string& text = work.status().message();
  EXPECT_NE(text.find("operation #0 of communicator 3: root is 0 on rank 1 but 1 on rank 0"),
            std::string::npos) << text;
}

TEST_F(ProgressSuite, OneThatDoesNotDifferFailsNothing) {
  Work& work = submit(1, broadcast(0));
  submit(2, broadcast(0));
  hear(1, 2, world_.engine(2).diagnostics().progress_header(0));
  world_.run_engines();
  EXPECT_FALSE(work.is_done());
  EXPECT_TRUE(stragglers(1).at("ranks").items()[1].at("called").bool_or(false));
  ASSERT_EQ(stragglers(1).at("absent").items().size(), 1U);
  EXPECT_EQ(stragglers(1).at("absent").items()[0].integer_or(-1), 0);
}

// An operation may be over here before the rank that disagrees has come.
TEST_F(ProgressSuite, AnOperationThatIsOverIsComparedToo) {
  for (int rank = 0; rank < 3; ++rank) submit(rank, broadcast(0));
  ASSERT_TRUE(world_.run_until([&] { return work_[0].is_done() && work_[1].is_done(); }));
  HeartbeatHeader said = world_.engine(1).diagnostics().progress_header(0);
  EXPECT_EQ(said.progress, HeartbeatHeader::Progress::done);
  EXPECT_EQ(said.op_seq, 0U);
  said.progress = HeartbeatHeader::Progress::open;
  said.op.count = 11;
  hear(0, 1, said);
  EXPECT_EQ(world_.group(0).failed.code(), Code::mismatch);
  EXPECT_NE(world_.group(0).failed.message().find("count is 10 on rank 0 but 11 on rank 1"),
            std::string::npos) << world_.group(0).failed.message();
}

TEST_F(ProgressSuite, CountsOfAnExchangeBelongToPairs) {
  const uint64_t counts[] = {2, 3, 4};
  OpRequest request;
  request.collective = Collective::all_to_all_v;
  std::vector<float> in(9);
  request.in = in.data();
  request.out = buffer_.data();
  request.count = 9;
  request.input_counts = request.output_counts = counts;
  Work& work = submit(0, request);
  HeartbeatHeader said = world_.engine(0).diagnostics().progress_header(0);
  said.op.count = 77;
  hear(0, 1, said);
  EXPECT_TRUE(world_.group(0).failed.is_ok());
  said.op.dtype = Dtype::int8;
  said.op_seq = 0;
  hear(0, 2, said);
  world_.run_engines();
  ASSERT_TRUE(work.is_done());
  EXPECT_NE(work.status().message().find("dtype is "), std::string::npos)
      << work.status().message();
}

TEST_F(ProgressSuite, EveryCommunicatorIsSpokenOfInTurn) {
  auto& engine = world_.engine(0);
  GroupRequest request;
  request.comm = 9;
  request.members = {0, 1, 2};
  auto policy = rails::make_policy("pull", {});
  ASSERT_TRUE(policy.is_ok());
  request.policy = std::move(*policy);
  auto other = engine.create_group(std::move(request));
  ASSERT_TRUE(other.is_ok());
  EXPECT_EQ(engine.diagnostics().progress_header(0).progress, HeartbeatHeader::Progress::none);
  submit(0, broadcast(1));
  Work& work = work_[next_work_++];
  ASSERT_TRUE(engine.submit(**other, broadcast(2), work).is_ok());
  std::set<uint32_t> comms;
  for (uint32_t turn = 0; turn < 4; ++turn) comms.insert(engine.diagnostics().progress_header(turn).comm);
  EXPECT_EQ(comms, (std::set<uint32_t>{3, 9}));
  engine.destroy_group(**other);
}

// An authenticated peer may say anything; it can only claim to disagree.
TEST_F(ProgressSuite, WhateverAPeerSaysIsHeldAtBay) {
  submit(0, broadcast(1));
  std::mt19937_64 generator(7);
  const uint64_t numbers[] = {0, 1, 2, 65535, UINT64_MAX - 1, UINT64_MAX};
  for (int round = 0; round < 20'000; ++round) {
    HeartbeatHeader header;
    header.progress = static_cast<HeartbeatHeader::Progress>(generator() % 5);
    header.waits_for = static_cast<uint16_t>(generator()) - 1;
    header.comm = generator() % 2 == 0 ? 3 : static_cast<uint64_t>(generator());
    header.op_seq = 1 + numbers[generator() % std::size(numbers)] % UINT64_MAX;
    header.op.collective = static_cast<Collective>(generator() % kCollectiveCount);
    header.op.count = generator();
    header.op.root = static_cast<uint16_t>(generator());
    hear(0, 1 + static_cast<int>(generator() % 2), header);
    if (round % 500 == 0) stragglers(0);
  }
  EXPECT_TRUE(world_.group(0).failed.is_ok()) << world_.group(0).failed.to_string();
  const JsonValue report = stragglers(0);
  for (const JsonValue& entry : report.at("ranks").items()) {
    EXPECT_LT(entry.at("waits_for_global_rank").integer_or(0), 3);
  }
}

}  // namespace
}  // namespace nezha::engine
