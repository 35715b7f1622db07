// Frames that came before their operation: found by operation and chunk, in order, each once.
#include <gtest/gtest.h>

#include <deque>
#include <set>

#include "engine/group.h"

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
  EXPECT_EQ(store_.take(3, 2), nullptr);
  EXPECT_EQ(store_.take(5, 0), nullptr);
  EXPECT_EQ(store_.take(4, 0), &c);
  EXPECT_EQ(store_.take(3, 1), &b);
  EXPECT_FALSE(store_.empty());
  EXPECT_EQ(store_.take(3, 0), &a);
  EXPECT_EQ(store_.take(3, 0), nullptr);
  EXPECT_TRUE(store_.empty());
}

TEST_F(EarlyStoreTest, KeepsTheOrderOfOneChunk) {
  EarlyFrame& first = put(1, 7);
  EarlyFrame& second = put(1, 7);
  EarlyFrame& third = put(1, 7);
  EXPECT_EQ(store_.take(1, 7), &first);
  EXPECT_EQ(store_.take(1, 7), &second);
  EXPECT_EQ(store_.take(1, 7), &third);
}

// Far more identities than buckets: neighbours in a chain are never taken for each other.
TEST_F(EarlyStoreTest, TellsApartWhatSharesABucket) {
  for (uint64_t op_seq = 0; op_seq < 40; ++op_seq) {
    for (uint32_t chunk = 0; chunk < 40; ++chunk) put(op_seq, chunk);
  }
  for (uint64_t op_seq = 40; op_seq-- > 0;) {
    for (uint32_t chunk = 0; chunk < 40; ++chunk) {
      const EarlyFrame* frame = store_.take(op_seq, chunk);
      ASSERT_NE(frame, nullptr);
      EXPECT_EQ(frame->header.op_seq, op_seq);
      EXPECT_EQ(frame->header.chunk, chunk);
      EXPECT_EQ(store_.take(op_seq, chunk), nullptr);
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
  EXPECT_EQ(store_.take(2, 5), &other);  // looking took nothing out
  EXPECT_EQ(find_other(2, op), nullptr);
}

}  // namespace
}  // namespace nezha::engine
