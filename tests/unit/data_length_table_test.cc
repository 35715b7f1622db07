// The data length table: keys, bounds, and its JSON, which strangers may hand in.
#include "paper/data_length_table.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace nezha::rails {
namespace {

const std::vector<RailSnapshot> kRails = {{1.25e8, 50e-6, true}, {6.25e7, 50e-6, true}};

std::unique_ptr<Policy> trained() {
  auto policy = make_policy("table", {});
  const OpClass op{.bytes = 16 << 20, .group = 3};
  for (int k = 0; k < 60; ++k) {
    const Shares shares = (*policy)->shares(op, kRails);
    OpSample sample{.op = op, .rails = 2};
    for (size_t i = 0; i < 2; ++i) {
      sample.rail_bytes[i] = static_cast<uint64_t>(shares.weight[i] * (16 << 20));
      if (sample.rail_bytes[i] == 0) continue;
      sample.rail_s[i] = 50e-6 + static_cast<double>(sample.rail_bytes[i]) /
                                     kRails[i].rate_bytes_per_s;
      sample.total_s = std::max(sample.total_s, sample.rail_s[i]);
    }
    (*policy)->learn(sample);
  }
  return std::move(*policy);
}

TEST(DataLengthTable, SizeClassesArePowersOfTwo) {
  EXPECT_EQ(size_class_of(0), 0u);
  EXPECT_EQ(size_class_of(1), 0u);
  EXPECT_EQ(size_class_of(1023), 9u);
  EXPECT_EQ(size_class_of(1024), 10u);
  EXPECT_EQ(size_class_of(UINT64_MAX), 63u);
}

TEST(DataLengthTable, WhatWasSavedIsLoaded) {
  const auto policy = trained();
  const OpClass op{.bytes = 16 << 20, .group = 3};
  EXPECT_NEAR(policy->shares(op, kRails).weight[0], 2.0 / 3, 0.01);
  auto other = make_policy("table", {});
  ASSERT_TRUE((*other)->load(policy->save()).is_ok());
  EXPECT_NEAR((*other)->shares(op, kRails).weight[0], 2.0 / 3, 0.01);
  EXPECT_NE(policy->save().find("\"size_class\":24"), std::string::npos) << policy->save();
  ASSERT_TRUE((*other)->load("{}").is_ok());
  EXPECT_EQ((*other)->save(), "{\"version\":1,\"rows\":[]}");
}

TEST(DataLengthTable, WhySaysTheNumbers) {
  const auto policy = trained();
  const std::string why = policy->why({.bytes = 16 << 20, .group = 3}, kRails);
  EXPECT_NE(why.find("hot"), std::string::npos) << why;
  EXPECT_NE(why.find("rail 0 66."), std::string::npos) << why;
  const std::string fresh = policy->why({.bytes = 8, .group = 3}, kRails);
  EXPECT_NE(fresh.find("nothing learned"), std::string::npos) << fresh;
  EXPECT_NE(fresh.find("cold"), std::string::npos) << fresh;
}

TEST(DataLengthTable, BadJsonIsRefusedAndChangesNothing) {
  const auto policy = trained();
  const std::string good = policy->save();
  for (size_t cut = 1; cut < good.size(); ++cut) {
    const Status status = policy->load(good.substr(0, cut));
    EXPECT_EQ(status.code(), Code::invalid_argument) << good.substr(0, cut);
  }
  for (const char* bad : {"", "[]", "7", "null", "{\"version\":2,\"rows\":[]}",
                          "{\"version\":1}", "{\"version\":1,\"rows\":{}}",
                          "{\"version\":1,\"rows\":[7]}", "{\"version\":1,\"rows\":[{}]}"}) {
    EXPECT_EQ(policy->load(bad).code(), Code::invalid_argument) << bad;
  }
  EXPECT_EQ(policy->save(), good);
}

TEST(DataLengthTable, EveryFieldIsChecked) {
  const auto policy = trained();
  const std::string good = policy->save();
  const std::pair<const char*, const char*> changes[] = {
      {"\"all_reduce\"", "\"all_to_none\""}, {"\"size_class\":24", "\"size_class\":64"},
      {"\"size_class\":24", "\"size_class\":-1"}, {"\"group\":3", "\"group\":-1"},
      {"\"up\":[true,true]", "\"up\":[]"}, {"\"up\":[true,true]", "\"up\":[1,true]"},
      {"\"up\":[true,true]", "\"up\":[false,true]"}, {"\"up\":[true,true]", "\"up\":[true]"},
      {"\"share\":[", "\"share\":[5,"}, {"\"share\":[", "\"share\":[-"},
      {"\"single_s\":[", "\"single_s\":[-1,"}, {"\"all_s\":", "\"all_s\":-"},
      {"\"single_rail\":0", "\"single_rail\":2"}, {"\"single_rail\":0", "\"single_rail\":-1"},
      {"\"operations\":", "\"operations\":-"}, {"\"state\":\"all\"", "\"state\":\"warm\""}};
  for (const auto& [from, to] : changes) {
    std::string text = good;
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from << " in " << good;
    text.replace(at, std::string(from).size(), to);
    const Status status = policy->load(text);
    EXPECT_EQ(status.code(), Code::invalid_argument) << text;
    EXPECT_NE(status.message().find("row 0"), std::string::npos) << status.message();
  }
}

TEST(DataLengthTable, IsBounded) {
  DataLengthTable table;
  const TableRow row({.bytes = 1}, kRails, RailModel({}));
  for (uint32_t group = 0; group < DataLengthTable::kRowsMax + 10; ++group) {
    table.put({.group = group, .up_mask = 3}, row);
    table.find({.group = 0, .up_mask = 3});  // in use all the time
  }
  EXPECT_NE(table.find({.group = 0, .up_mask = 3}), nullptr);
  EXPECT_EQ(table.find({.group = 1, .up_mask = 3}), nullptr);
  EXPECT_NE(table.find({.group = DataLengthTable::kRowsMax + 9, .up_mask = 3}), nullptr);
}

}  // namespace
}  // namespace nezha::rails
