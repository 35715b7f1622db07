// What an error tells programs, and what of it travels to the other ranks.
#include <gtest/gtest.h>

#include "engine/group/failure_details.h"

namespace nezha::engine {
namespace {

constexpr size_t kMembers = 4;

Status failure(std::vector<int> ranks) {
  ErrorDetails details;
  details.ranks = std::move(ranks);
  details.operation = name_of(Collective::all_gather);
  details.number = 0;
  details.bytes = 4096;
  Status why(Code::timed_out, "why");
  return why.with(std::move(details));
}

ErrorDetails travelled(const Status& why) {
  wire::FailureHeader header;
  header.comm = 7;
  write_details(why, header);
  return read_details(wire::FailureHeader::from(header.to_frame()), kMembers);
}

TEST(FailureDetails, TravelWithAtMostTwoRanks) {
  for (const std::vector<int>& ranks : {std::vector<int>{}, {0}, {3}, {0, 3}}) {
    const ErrorDetails heard = travelled(failure(ranks));
    EXPECT_EQ(heard.ranks, ranks);
    EXPECT_EQ(heard.operation, "all_gather");
    EXPECT_EQ(heard.number, 0);
    EXPECT_EQ(heard.bytes, 4096);
    EXPECT_EQ(heard.communicator, 7);
  }
  EXPECT_TRUE(travelled(failure({0, 1, 2})).ranks.empty());
}

TEST(FailureDetails, WhatNobodyKnowsIsEmpty) {
  const ErrorDetails heard = travelled(Status(Code::aborted, "why"));
  EXPECT_TRUE(heard.ranks.empty());
  EXPECT_TRUE(heard.operation.empty());
  EXPECT_EQ(heard.number, -1);
  EXPECT_EQ(heard.bytes, -1);
}

// A message has no place in the order of the operations, and "send" is no collective.
TEST(FailureDetails, OfAMessageOnlyTheRanksTravel) {
  ErrorDetails details;
  details.ranks = {2};
  details.operation = "send";
  Status why(Code::timed_out, "why");
  const ErrorDetails heard = travelled(why.with(std::move(details)));
  EXPECT_EQ(heard.ranks, std::vector<int>{2});
  EXPECT_TRUE(heard.operation.empty());
}

TEST(FailureDetails, AFrameThatNamesStrangersNamesNobodyElse) {
  wire::FailureHeader header;
  header.ranks = {kMembers, 0};
  header.operation = {Collective::all_reduce, UINT64_MAX - 1, UINT64_MAX};
  const ErrorDetails heard = read_details(header, kMembers);
  EXPECT_TRUE(heard.ranks.empty());
  EXPECT_TRUE(heard.operation.empty());
}

}  // namespace
}  // namespace nezha::engine
