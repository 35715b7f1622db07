// calibration_file: what the library takes from it, and the sentence about one that cannot be used.
#include "context/calibration.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "schedule/plan.h"

namespace nezha::context {
namespace {

constexpr const char* kFile = R"({"kind": "nezha calibration", "version": 1, "rails": [
  {"name": "eth0", "rate_gbps": 8, "latency_us": 9, "nominal_gbps": null},
  {"name": "eth1", "rate_gbps": 24, "latency_us": 49, "nominal_gbps": 100}],
  "gap_us": 1, "adds_gb_per_s": 5, "rate_lost": [[0, 0.25], [0.125, 0]], "split_cost_us": 30,
  "points": []})";

std::string with(const std::string& old, const std::string& fresh) {
  std::string text = kFile;
  text.replace(text.find(old), old.size(), fresh);
  return text;
}

std::string refusal(const std::string& json) {
  auto found = parse_calibration(json);
  return found ? "it was taken" : found.status().message();
}

TEST(Calibration, HasRatesLatenciesAndWhatRailsLose) {
  auto found = parse_calibration(kFile);
  ASSERT_TRUE(found) << found.status().to_string();
  ASSERT_NE(found->find("eth1"), nullptr);
  EXPECT_DOUBLE_EQ(found->find("eth1")->bytes_per_s, 3e9);
  EXPECT_DOUBLE_EQ(found->find("eth1")->latency_s, 50e-6);  // with the processor's part
  EXPECT_EQ(found->find("eth2"), nullptr);
  const std::vector<std::string> rails = {"eth1", "lo", "eth0"};
  const rails::Interference lost = found->interference(rails);
  EXPECT_TRUE(lost.measured);
  EXPECT_DOUBLE_EQ(lost.split_cost_s, 30e-6);
  EXPECT_DOUBLE_EQ(lost.rate_lost[0][2], 0.125);
  EXPECT_DOUBLE_EQ(lost.rate_lost[2][0], 0.25);
  EXPECT_DOUBLE_EQ(lost.rate_lost[0][1], 0);
}

TEST(Calibration, CostsAreThoseOfTheRailsTogether) {
  auto found = parse_calibration(kFile);
  ASSERT_TRUE(found);
  schedule::CostTable costs;
  const std::vector<std::string> both = {"eth0", "eth1"};
  ASSERT_TRUE(found->apply(both, &costs));
  EXPECT_DOUBLE_EQ(costs.latency_s, (10e-6 * 1 + 50e-6 * 3) / 4);
  EXPECT_DOUBLE_EQ(costs.reduce_bytes_per_s, 5e9);
  const std::vector<std::string> one = {"lo", "eth0"};
  ASSERT_TRUE(found->apply(one, &costs));
  EXPECT_DOUBLE_EQ(costs.latency_s, 10e-6);
  const std::vector<std::string> none = {"lo"};
  const Status refused = found->apply(none, &costs);
  EXPECT_EQ(refused.code(), Code::invalid_argument);
  EXPECT_NE(refused.message().find("eth0, eth1, and rank 0 has lo"), std::string::npos)
      << refused.message();
}

TEST(Calibration, NothingIsAssumedWhereInterferenceWasNotMeasured) {
  auto found = parse_calibration(
      with("[[0, 0.25], [0.125, 0]], \"split_cost_us\": 30", "null, \"split_cost_us\": null"));
  ASSERT_TRUE(found) << found.status().to_string();
  const std::vector<std::string> rails = {"eth0", "eth1"};
  EXPECT_FALSE(found->interference(rails).measured);
}

TEST(Calibration, MessagesInsideAHostAreKnownWhereTheyWereMeasured) {
  EXPECT_FALSE(parse_calibration(kFile)->inside.has_value());
  auto found = parse_calibration(with(
      "\"points\"", "\"inside\": {\"rate_gb_per_s\": 2, \"latency_us\": 7}, \"points\""));
  ASSERT_TRUE(found) << found.status().to_string();
  ASSERT_TRUE(found->inside.has_value());
  EXPECT_DOUBLE_EQ(found->inside->bytes_per_s, 2e9);
  EXPECT_DOUBLE_EQ(found->inside->latency_s, 7e-6);
}

TEST(Calibration, ItsNameIsItsContents) {
  auto one = parse_calibration(kFile);
  auto other = parse_calibration(with("\"rate_gbps\": 8", "\"rate_gbps\": 9"));
  ASSERT_TRUE(one && other);
  EXPECT_EQ(one->name(), parse_calibration(kFile)->name());
  EXPECT_NE(one->name(), other->name());
}

TEST(Calibration, ASentenceNamesFieldValueAndWhatIsAllowed) {
  const std::vector<std::vector<std::string>> cases = {
      {"nezha calibration", "nezha interference", "'kind' is 'nezha interference', and must be"},
      {"\"version\": 1", "\"version\": 2", "'version' is 2, and must be 1"},
      {"\"rate_gbps\": 8", "\"rate_gbps\": -3", "'rails[0].rate_gbps' is -3, and must be Gbit/s above 0"},
      {"\"rate_gbps\": 24", "\"rate_gbps\": \"fast\"", "'rails[1].rate_gbps' is 'fast', and must be"},
      {"\"latency_us\": 9", "\"latency_us\": null", "'rails[0].latency_us' is missing or null"},
      {"\"name\": \"eth1\"", "\"name\": \"\"", "'rails[1].name' is ''"},
      {"\"gap_us\": 1", "\"gap_us\": -1", "'gap_us' is -1"},
      {"\"adds_gb_per_s\": 5", "\"adds_gb_per_s\": 0", "'adds_gb_per_s' is 0"},
      {"0.25", "1", "'rate_lost[0][1]' is 1, and must be a number from 0 to less than 1"},
      {"[0, 0.25]", "[0.5, 0.25]", "'rate_lost[0][0]' is 0.5, and must be 0"},
      {"[0.125, 0]", "[0.125]", "'rate_lost[1]' is an array of 1, and must be an array"},
      {"\"points\"", "\"inside\": {\"rate_gb_per_s\": 0, \"latency_us\": 1}, \"points\"",
       "'inside.rate_gb_per_s' is 0, and must be GB/s above 0"},
      {"\"points\"", "\"inside\": {\"rate_gb_per_s\": 1}, \"points\"",
       "'inside.latency_us' is missing or null"},
      {"\"split_cost_us\": 30", "\"split_cost_us\": null", "'split_cost_us' is missing or null"},
  };
  for (const auto& each : cases) {
    const std::string said = refusal(with(each[0], each[1]));
    EXPECT_NE(said.find(each[2]), std::string::npos) << said;
    EXPECT_NE(said.find("nezha calibrate"), std::string::npos) << said;
  }
  EXPECT_EQ(refusal("{}").substr(0, 30), "'kind' is missing or null, and");
  EXPECT_NE(refusal("[1").find("line 1, column 3"), std::string::npos);
}

}  // namespace
}  // namespace nezha::context
