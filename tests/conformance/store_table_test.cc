// The TCP store's server without sockets: who is answered when, and where the memory goes.
#include "rendezvous/store_table.h"

#include <gtest/gtest.h>

namespace nezha::rendezvous {
namespace {

Request request(Operation operation, std::string key, std::string_view value = "") {
  return {operation, std::move(key), WipedText(value), false};
}

class Table : public ::testing::Test {
 protected:
  std::vector<Answer> handle(ClientId client, Request one) {
    std::vector<Answer> answers;
    table_.handle(client, std::move(one), answers);
    return answers;
  }

  MemoryBudget budget_{10'000, 0};
  StoreTable table_{budget_};
};

TEST_F(Table, WaitingGetsAreAnsweredByTheSet) {
  EXPECT_TRUE(handle(1, request(Operation::get, "k")).empty());
  EXPECT_TRUE(handle(2, request(Operation::get, "k")).empty());
  EXPECT_TRUE(handle(3, request(Operation::get, "other")).empty());
  const auto answers = handle(4, request(Operation::set, "k", "v"));
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(answers[0].client, 1u);
  EXPECT_EQ(answers[1].client, 2u);
  EXPECT_EQ(answers[0].value->bytes(), "v");
  EXPECT_EQ(answers[2].client, 4u);
  EXPECT_EQ(table_.waiting(), 1u);
  EXPECT_EQ(handle(4, request(Operation::set, "k", "w")).size(), 1u) << "answered once only";
}

TEST_F(Table, SetIfAbsentAnswersWaitersToo) {
  EXPECT_TRUE(handle(1, request(Operation::get, "k")).empty());
  EXPECT_EQ(handle(2, request(Operation::set_if_absent, "k", "v")).size(), 2u);
  const auto loser = handle(3, request(Operation::set_if_absent, "k", "w"));
  ASSERT_EQ(loser.size(), 1u);
  EXPECT_EQ(loser[0].value->bytes(), "v");
}

TEST_F(Table, ForgottenClientIsNotAnswered) {
  EXPECT_TRUE(handle(1, request(Operation::get, "k")).empty());
  table_.forget(1);
  table_.forget(1);
  table_.forget(77);
  EXPECT_EQ(table_.waiting(), 0u);
  EXPECT_EQ(handle(2, request(Operation::set, "k", "v")).size(), 1u);
}

TEST_F(Table, AnswersThatAreNotTakenCountAgainstTheBudget) {
  std::vector<Answer> kept;
  Code code = Code::ok;
  for (int i = 0; i < 100 && code == Code::ok; ++i) {
    code = handle(1, request(Operation::set, "k", std::string(1000, 'v')))[0].code;
    kept.push_back(handle(2, request(Operation::get, "k"))[0]);
    EXPECT_LE(budget_.used, budget_.limit);
  }
  EXPECT_EQ(code, Code::exhausted);
  EXPECT_EQ(table_.keys(), 1u);
  kept.clear();
  EXPECT_EQ(handle(1, request(Operation::set, "k", std::string(1000, 'v')))[0].code, Code::ok);
  handle(1, request(Operation::remove, "k"));
  EXPECT_EQ(budget_.used, 0u);
}

TEST_F(Table, ManySmallKeysAreBoundedToo) {
  Code code = Code::ok;
  int keys = 0;
  for (; code == Code::ok && keys < 10'000; ++keys) {
    code = handle(1, request(Operation::set, std::to_string(keys)))[0].code;
  }
  EXPECT_EQ(code, Code::exhausted);
  EXPECT_LT(keys, 100);
}

TEST(RequestReader, HoldsOnlyWhatHasArrived) {
  MemoryBudget budget{100'000, 0};
  RequestReader reader(budget);
  ASSERT_EQ(reader.feed(kMagic), RequestReader::Outcome::greeted);
  const auto head = encode_request_head(Operation::set, 1, kValueBytesMax);
  ASSERT_EQ(reader.feed({head.data(), head.size()}), RequestReader::Outcome::more);
  EXPECT_EQ(budget.used, 0u);
  EXPECT_EQ(reader.feed("kv"), RequestReader::Outcome::more);
  EXPECT_EQ(budget.used, 2u);
}

TEST(RequestReader, ValueBeyondTheBudgetIsDroppedAndAnswered) {
  MemoryBudget budget{100, 0};
  RequestReader reader(budget);
  ASSERT_EQ(reader.feed(kMagic), RequestReader::Outcome::greeted);
  for (const size_t size : {200, 50}) {
    const auto head = encode_request_head(Operation::set, 1, size);
    ASSERT_EQ(reader.feed({head.data(), head.size()}), RequestReader::Outcome::more);
    auto outcome = RequestReader::Outcome::more;
    while (outcome == RequestReader::Outcome::more) {
      outcome = reader.feed(std::string(std::min<size_t>(reader.wanted(), 30), 'x'));
    }
    ASSERT_EQ(outcome, RequestReader::Outcome::request);
    EXPECT_EQ(reader.take_request().too_much, size == 200);
    EXPECT_EQ(budget.used, 0u);
  }
}

TEST(RequestReader, AnswerHeadsRoundTripAndAreChecked) {
  const auto decoded = decode_answer_head(encode_answer_head(Code::exhausted, 70'000));
  ASSERT_TRUE(decoded.is_ok());
  EXPECT_EQ(decoded.value().code, Code::exhausted);
  EXPECT_EQ(decoded.value().value_bytes, 70'000u);
  EXPECT_FALSE(decode_answer_head({9, 0, 0, 0, 0, 0, 0, 0}).is_ok());
  EXPECT_FALSE(decode_answer_head({0, 1, 0, 0, 0, 0, 0, 0}).is_ok());
  EXPECT_FALSE(decode_answer_head(encode_answer_head(Code::ok, kValueBytesMax + 1)).is_ok());
}

}  // namespace
}  // namespace nezha::rendezvous
