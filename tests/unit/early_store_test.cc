// Frames that came before their operation: found by operation and chunk, in order, each once.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <deque>
#include <set>

#include "engine/group/group.h"

namespace nezha::engine {
namespace {

class EarlyStoreTest : public ::testing::Test {
 protected:
  EarlyFrame& put(uint64_t op_seq, uint32_t chunk, uint64_t count = 1) {
    EarlyFrame& frame = frames_.emplace_back();
    frame.header.op_seq = op_seq;
    frame.header.chunk = chunk;
    frame.header.op.count = count;
    store_.put(frame);
    return frame;
  }

  std::deque<EarlyFrame> frames_;
  EarlyStore store_;
};

TEST_F(EarlyStoreTest, GivesBackByOperationAndChunk) {
  EarlyFrame& a = put(3, 0);
  EarlyFrame& b = put(3, 1);
  EarlyFrame& c = put(4, 0);
  EXPECT_EQ(store_.pop(3, 2), nullptr);
  EXPECT_EQ(store_.pop(5, 0), nullptr);
  EXPECT_EQ(store_.pop(4, 0), &c);
  EXPECT_EQ(store_.pop(3, 1), &b);
  EXPECT_FALSE(store_.empty());
  EXPECT_EQ(store_.pop(3, 0), &a);
  EXPECT_EQ(store_.pop(3, 0), nullptr);
  EXPECT_TRUE(store_.empty());
}

TEST_F(EarlyStoreTest, KeepsTheOrderOfOneChunk) {
  EarlyFrame& first = put(1, 7);
  EarlyFrame& second = put(1, 7);
  EarlyFrame& third = put(1, 7);
  EXPECT_EQ(store_.pop(1, 7), &first);
  EXPECT_EQ(store_.pop(1, 7), &second);
  EXPECT_EQ(store_.pop(1, 7), &third);
}

TEST_F(EarlyStoreTest, TellsApartNeighbours) {
  for (uint64_t op_seq = 0; op_seq < 40; ++op_seq) {
    for (uint32_t chunk = 0; chunk < 40; ++chunk) put(op_seq, chunk);
  }
  for (uint64_t op_seq = 40; op_seq-- > 0;) {
    for (uint32_t chunk = 0; chunk < 40; ++chunk) {
      const EarlyFrame* frame = store_.pop(op_seq, chunk);
      ASSERT_NE(frame, nullptr);
      EXPECT_EQ(frame->header.op_seq, op_seq);
      EXPECT_EQ(frame->header.chunk, chunk);
      EXPECT_EQ(store_.pop(op_seq, chunk), nullptr);
    }
  }
  EXPECT_TRUE(store_.empty());
}

TEST_F(EarlyStoreTest, TakeAnyEmptiesIt) {
  std::set<const EarlyFrame*> put_in;
  for (uint32_t chunk = 0; chunk < 300; ++chunk) put_in.insert(&put(chunk % 3, chunk));
  while (const EarlyFrame* frame = store_.take_any()) EXPECT_EQ(put_in.erase(frame), 1U);
  EXPECT_TRUE(put_in.empty());
  EXPECT_TRUE(store_.empty());
}

TEST_F(EarlyStoreTest, FindsWhoDescribesTheOperationOtherwise) {
  wire::OpDescriptor op;
  op.count = 10;
  const auto find_other = [&](uint64_t op_seq, const wire::OpDescriptor& wanted) {
    return store_.find(op_seq, [&](const EarlyFrame& frame) { return !(frame.header.op == wanted); });
  };
  EXPECT_EQ(find_other(2, op), nullptr);
  put(2, 0, 10);
  put(3, 0, 99);  // another operation may be anything
  EXPECT_EQ(find_other(2, op), nullptr);
  EarlyFrame& other = put(2, 5, 11);
  EXPECT_EQ(find_other(2, op), &other);
  EXPECT_EQ(store_.pop(2, 5), &other);  // looking took nothing out
  EXPECT_EQ(find_other(2, op), nullptr);
}

TEST_F(EarlyStoreTest, HoldsWhatIsTheSameInAllParts) {
  EarlyFrame& frame = put(2, 5);
  wire::FrameHeader header = frame.header;
  EXPECT_TRUE(store_.holds(header, 0));
  EXPECT_FALSE(store_.holds(header, 1));
  header.stage = 1;
  EXPECT_FALSE(store_.holds(header, 0));
  header = frame.header;
  header.slot = 1;
  EXPECT_FALSE(store_.holds(header, 0));
  store_.pop(2, 5);
  EXPECT_FALSE(store_.holds(frame.header, 0));
}

// The processor's time of this thread: what others do on this machine does not count.
int64_t thread_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// A peer chooses the identities: of one operation, of one chunk, or with equal remainders. Four hundred
// times as many frames may not make what is asked of each frame four hundred times as long.
TEST_F(EarlyStoreTest, HardlySlowsDownWithTheNumberOfFrames) {
  using Choose = void (*)(wire::FrameHeader& header, uint32_t number);
  const Choose choices[] = {
      [](wire::FrameHeader& header, uint32_t number) { header.chunk = number * 256; },
      [](wire::FrameHeader& header, uint32_t number) { header.op_seq = uint64_t{number} * 256; },
      [](wire::FrameHeader& header, uint32_t number) {
        header.stage = static_cast<uint16_t>(number);
        header.slot = static_cast<uint16_t>(number >> 16);
      },
  };
  for (const Choose& choose : choices) {
    const auto cost_of_each = [&](uint32_t count) {
      std::deque<EarlyFrame> frames(count);
      EarlyStore store;
      int64_t best = INT64_MAX;
      for (int attempt = 0; attempt < 3; ++attempt) {
        const int64_t began = thread_ns();
        for (uint32_t i = 0; i < count; ++i) {
          choose(frames[i].header, i);
          store.put(frames[i]);
        }
        for (const EarlyFrame& frame : frames) EXPECT_TRUE(store.holds(frame.header, 0));
        for (uint32_t i = 0; i < count; ++i) {
          const auto is_any = [](const EarlyFrame&) { return true; };
          EXPECT_NE(store.find(frames[i].header.op_seq, is_any), nullptr);
          EXPECT_NE(store.pop(frames[i].header.op_seq, frames[i].header.chunk), nullptr);
        }
        best = std::min(best, (thread_ns() - began) / count);
      }
      return best;
    };
    const int64_t few = cost_of_each(150);
    EXPECT_LT(cost_of_each(60'000), 60 * few) << "few " << few << " ns";
  }
}

}  // namespace
}  // namespace nezha::engine
