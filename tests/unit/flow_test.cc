// The flow of transfers between two ranks without operations: credit, acknowledgements, frames that come
// early, and what becomes of the transfers of a lost connection.
#include <gtest/gtest.h>

#include <vector>

#include "engine/flow/constants.h"
#include "engine/flow/reconciler.h"
#include "support/engine_rooms.h"

namespace nezha::engine {
namespace {

using nezha::testing::connect;
using nezha::testing::deliver_all;
using nezha::testing::FlowRooms;
using nezha::testing::HandClock;
using nezha::testing::kRoomComm;
using nezha::testing::room_options;

constexpr uint32_t kTransferBytes = 1000;
constexpr uint64_t kFourTransfers = 4 * (kTransferBytes + wire::kHeaderBytes);

EngineOptions small_credit(int rank) {
  EngineOptions options = room_options(rank, 2);
  options.credit_bytes = kFourTransfers;
  return options;
}

class Flow : public ::testing::Test {
 protected:
  ~Flow() override {
    for (FlowRooms* const rank : {&sender_, &receiver_}) {
      rank->failures.fail(*rank->groups.find(kRoomComm), error(Code::aborted, "the test ended"), false);
      rank->settle_all();
    }
  }
  // Rank 0 sends the transfer with that number to rank 1.
  void post(uint64_t number, uint8_t flags = 0) {
    transport::WorkRequest* const request = sender_.transfers.acquire();
    ASSERT_NE(request, nullptr);
    request->header = wire::FrameHeader();
    request->header.comm = kRoomComm;
    request->header.op_seq = number;
    request->header.length = kTransferBytes;
    request->header.flags = flags;
    request->data = payload_.data();
    request->copy = nullptr;
    request->owner = nullptr;
    sender_.credit.post(from_, 1, *request);
  }
  void move() { deliver_all({&sender_, &receiver_}, links_); }
  // Rank 1 needs the early frame with that number no more; false: it has none.
  bool consume(uint64_t number) {
    EarlyFrame* const frame = to_.early.pop(number, 0);
    if (frame == nullptr) return false;
    const uint64_t cost = frame_cost(frame->header.length);
    receiver_.early.free(to_, *frame);
    receiver_.credit.consumed(to_, 0, cost);
    return true;
  }
  uint32_t in_flight() { return sender_.peers.of(1).links().front().connection->in_flight_frames(); }

  const std::vector<std::byte> payload_ = std::vector<std::byte>(kTransferBytes);
  HandClock clock_;
  FlowRooms sender_{small_credit(0), clock_};
  FlowRooms receiver_{small_credit(1), clock_};
  std::vector<std::shared_ptr<transport::FakeLink>> links_{connect(sender_, receiver_)};
  Group& from_ = sender_.add_group(kRoomComm);
  Group& to_ = receiver_.add_group(kRoomComm);
};

TEST_F(Flow, ASenderWaitsForWhatItsReceiverConsumes) {
  for (uint64_t number = 0; number < 10; ++number) post(number);
  move();
  EXPECT_EQ(to_.counters.early_frames, 4U) << "as many as fit into the credit";
  EXPECT_EQ(to_.early_cost[0], kFourTransfers);
  EXPECT_FALSE(from_.members[1].blocked.empty());
  for (uint64_t number = 0; number < 10; ++number) {
    ASSERT_TRUE(consume(number)) << number << " did not come, though there was room for it";
    move();
    EXPECT_LE(to_.early_cost[0], kFourTransfers);
  }
  EXPECT_TRUE(from_.members[1].blocked.empty());
  EXPECT_EQ(from_.members[1].credited, 10 * frame_cost(kTransferBytes));
  EXPECT_EQ(receiver_.pool.bytes_in_use(), 0U);
}

TEST_F(Flow, AnOlderCreditAndOneOfTooMuchSayNothing) {
  for (uint64_t number = 0; number < 4; ++number) post(number);
  sender_.credit.credited(1, kRoomComm, 2 * frame_cost(kTransferBytes));
  sender_.credit.credited(1, kRoomComm, frame_cost(kTransferBytes));
  EXPECT_EQ(from_.members[1].credited, 2 * frame_cost(kTransferBytes));
  sender_.credit.credited(1, kRoomComm, 5 * frame_cost(kTransferBytes));
  EXPECT_EQ(from_.members[1].credited, 2 * frame_cost(kTransferBytes));
}

TEST_F(Flow, AcknowledgementsAreDueSoonerIfTheSenderWaits) {
  EXPECT_EQ(receiver_.credit.acks_due(), kNever);
  post(0);
  move();
  EXPECT_EQ(receiver_.credit.acks_due(), clock_.now() + kLazyAckDelay);
  post(1, wire::kFlagAckNow);
  move();
  EXPECT_EQ(receiver_.credit.acks_due(), clock_.now() + kAckDelay);
  EXPECT_EQ(in_flight(), 2U);
  receiver_.credit.acknowledge_all();
  move();
  EXPECT_EQ(in_flight(), 0U);
  EXPECT_EQ(receiver_.credit.acks_due(), kNever);
}

TEST_F(Flow, ManyFramesAreAcknowledgedAtOnce) {
  to_.credit_bytes = from_.credit_bytes = 1 << 20;
  for (uint64_t number = 0; number + 1 < kFramesPerAck; ++number) post(number);
  move();
  EXPECT_EQ(in_flight(), kFramesPerAck - 1);
  post(kFramesPerAck);
  move();
  EXPECT_EQ(in_flight(), 0U);
}

TEST_F(Flow, ACopyOfAnEarlyFrameIsDroppedAndMoreThanTheCreditIsRefused) {
  wire::FrameHeader header;
  header.comm = kRoomComm;
  header.length = kTransferBytes;
  const auto place = [&](uint64_t number, uint8_t flags = 0) {
    header.op_seq = number;
    header.flags = flags;
    const transport::Landing landing = receiver_.early.place(to_, 0, header);
    if (landing.early != nullptr) to_.early.put(*EarlyFrame::of(landing));
    return landing;
  };
  for (uint64_t number = 0; number < 4; ++number) EXPECT_NE(place(number).early, nullptr) << number;
  const uint8_t again = wire::next_generation(0);
  const transport::Landing copy = place(2, again);
  EXPECT_FALSE(copy.refused);
  EXPECT_EQ(copy.early, nullptr);
  EXPECT_EQ(to_.counters.duplicates, 1U);
  EXPECT_TRUE(place(4).refused);
  EXPECT_NE(place(5, again).early, nullptr) << "what is sent again may be here twice";
  receiver_.early.drop_all(to_);
  EXPECT_EQ(receiver_.pool.bytes_in_use(), 0U);
  EXPECT_EQ(to_.early_cost[0], 0U);
}

// Two rails, of which the first ends with three transfers on it, two of which have landed.
class LostRail : public Flow {
 protected:
  LostRail() {
    links_.push_back(connect(sender_, receiver_, 1));
    sender_.lost = [this](transport::Connection& of, transport::WorkQueue& requests) {
      PeerLinks& links = sender_.peers.of(1);
      asking_.hold(links, *links.find(of.rail, 0), requests, of.first_unacknowledged());
    };
    sender_.control = [this](int peer, const wire::FrameHeader& header) {
      ASSERT_EQ(header.type, wire::FrameType::landed);
      asking_.on_landed(sender_.peers.of(peer), wire::LandedHeader::from(header));
    };
    receiver_.control = [this](int peer, const wire::FrameHeader& header) {
      ASSERT_EQ(header.type, wire::FrameType::reconcile);
      if (answers_) answering_.answer(receiver_.peers.of(peer), wire::ReconcileHeader::from(header));
    };
    Link& first = sender_.peers.of(1).links().front();
    for (uint64_t number = 0; number < 3; ++number) {
      transport::WorkRequest* const request = sender_.transfers.acquire();
      request->header = wire::FrameHeader();
      request->header.comm = kRoomComm;
      request->header.op_seq = number;
      request->header.length = kTransferBytes;
      request->data = payload_.data();
      request->copy = nullptr;
      request->owner = nullptr;
      request->peer = 1;
      EXPECT_TRUE(first.connection->post(*request));
    }
    first.connection->flush();
    EXPECT_EQ(links_[0]->deliver(1, 2), 2U);
    links_[0]->cut();
  }
  ~LostRail() override {
    sender_.lost = [](transport::Connection&, transport::WorkQueue&) {};
  }

  bool answers_ = true;
  Reconciler asking_{sender_.options, clock_, sender_.transfers};
  Reconciler answering_{receiver_.options, clock_, receiver_.transfers};
};

TEST_F(LostRail, OnlyWhatHasNotLandedIsSentAgain) {
  move();
  EXPECT_EQ(asking_.reconciled(), 2U);
  EXPECT_EQ(sender_.transfers.retransmitted(), 1U);
  EXPECT_EQ(to_.counters.duplicates, 0U);
  for (uint64_t number = 0; number < 3; ++number) EXPECT_TRUE(consume(number)) << number;
}

TEST_F(LostRail, WithoutAnAnswerInTimeEverythingIsSentAgain) {
  answers_ = false;
  move();
  PeerLinks& links = sender_.peers.of(1);
  EXPECT_EQ(asking_.due(), clock_.now() + kLandedPatience);
  asking_.begin_run();
  asking_.run(links, clock_.now());
  EXPECT_EQ(sender_.transfers.retransmitted(), 0U) << "the patience is not over";
  clock_.advance(kLandedPatience);
  asking_.begin_run();
  asking_.run(links, clock_.now());
  move();
  EXPECT_EQ(sender_.transfers.retransmitted(), 3U);
  EXPECT_EQ(to_.counters.duplicates, 2U);
  for (uint64_t number = 0; number < 3; ++number) EXPECT_TRUE(consume(number)) << number;
}

}  // namespace
}  // namespace nezha::engine
