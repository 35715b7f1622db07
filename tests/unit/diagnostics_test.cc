// Ranks tell each other how far they are; here no heartbeats carry that, and nobody judges it.
#include "engine/observer/diagnostics.h"

#include <gtest/gtest.h>

#include <vector>

#include "engine/operation/constants.h"
#include "support/operation_rooms.h"

namespace nezha::engine {
namespace {

using nezha::testing::HandClock;
using nezha::testing::OperationRooms;
using nezha::testing::room_options;
using wire::HeartbeatHeader;

// Rank 0 of three, which nobody is connected with.
class DiagnosticsTest : public ::testing::Test {
 protected:
  HandClock clock_;
  std::vector<float> data_ = std::vector<float>(100);
  std::vector<Work> work_ = std::vector<Work>(4);
  OperationRooms rank_{room_options(0, 3), clock_};
  Diagnostics diagnostics_{rank_.groups, clock_, rank_.flight, rank_.progress};
  Group& first_ = rank_.add_collectives(3);
  Group& second_ = rank_.add_collectives(4);
};

TEST_F(DiagnosticsTest, CommunicatorsWithOpenOperationsAreDescribedInTurn) {
  EXPECT_EQ(diagnostics_.progress_header(0).progress, HeartbeatHeader::Progress::none);
  ASSERT_TRUE(rank_.all_reduce(second_, data_, work_[0]));
  for (const uint32_t turn : {0U, 1U}) {
    const HeartbeatHeader header = diagnostics_.progress_header(turn);
    EXPECT_EQ(header.progress, HeartbeatHeader::Progress::open);
    EXPECT_EQ(header.comm, second_.comm);
    EXPECT_EQ(header.op.count, data_.size());
    EXPECT_GE(header.waits_for, 1);
  }
  ASSERT_TRUE(rank_.all_reduce(first_, data_, work_[1]));
  EXPECT_EQ(diagnostics_.progress_header(0).comm, first_.comm);
  EXPECT_EQ(diagnostics_.progress_header(1).comm, second_.comm);
}

TEST_F(DiagnosticsTest, AnotherDescriptionOfTheSameOperationIsAMismatch) {
  ASSERT_TRUE(rank_.all_reduce(first_, data_, work_[0]));
  HeartbeatHeader said = diagnostics_.progress_header(0);
  EXPECT_TRUE(diagnostics_.on_heartbeat(1, said).is_ok());
  said.op.count = 7;
  said.op_seq = 1;
  EXPECT_TRUE(diagnostics_.on_heartbeat(2, said).is_ok()) << "this rank has not called it yet";
  said.op_seq = 0;
  const Status differs = diagnostics_.on_heartbeat(2, said);
  EXPECT_EQ(differs.code(), Code::mismatch);
  EXPECT_NE(differs.message().find("count"), std::string::npos) << differs.message();
}

TEST_F(DiagnosticsTest, WhoIsAbsentIsWhoHasNotSpokenOfTheOperation) {
  ASSERT_TRUE(rank_.all_reduce(first_, data_, work_[0]));
  clock_.advance(kSecond);
  EXPECT_TRUE(diagnostics_.on_heartbeat(1, diagnostics_.progress_header(0)).is_ok());
  JsonWriter json;
  diagnostics_.write_stragglers(first_, json);
  auto parsed = parse_json(json.text());
  ASSERT_TRUE(parsed.is_ok()) << json.text();
  ASSERT_EQ(parsed->at("absent").items().size(), 1U);
  EXPECT_EQ(parsed->at("absent").items()[0].integer_or(-1), 2);
  EXPECT_EQ(parsed->at("waited_s").number_or(0), 1.0);
}

TEST_F(DiagnosticsTest, AListenerHearsOnceOfAllGroupsThatFailed) {
  int dumps = 0;
  diagnostics_.on_group_failed([&] { ++dumps; });
  diagnostics_.announce_failures();
  EXPECT_EQ(dumps, 0);
  ASSERT_TRUE(rank_.all_reduce(first_, data_, work_[0]));
  for (Group* const group : {&first_, &second_}) {
    rank_.failures.fail(*group, error(Code::peer_lost, "gone"), false);
  }
  diagnostics_.announce_failures();
  EXPECT_EQ(dumps, 1);
  const FlightOperation* const entry = rank_.flight.recorder().find(work_[0].flight);
  ASSERT_NE(entry, nullptr);
  EXPECT_GT(entry->awaited, 0U) << "whom it waited for is noted before it ends";
  rank_.settle_all();
  diagnostics_.announce_failures();
  EXPECT_EQ(dumps, 1);
}

TEST_F(DiagnosticsTest, RanksAreAwaitedInGroupsThatHaveNotFailed) {
  ASSERT_TRUE(rank_.all_reduce(first_, data_, work_[0]));
  clock_.advance(kAwaitedAfter);
  RankSet awaited(3);
  diagnostics_.mark_awaited(awaited);
  EXPECT_FALSE(awaited.empty());
  awaited.clear();
  rank_.failures.fail(first_, error(Code::aborted, "given up"), false);
  diagnostics_.mark_awaited(awaited);
  EXPECT_TRUE(awaited.empty());
}

}  // namespace
}  // namespace nezha::engine
