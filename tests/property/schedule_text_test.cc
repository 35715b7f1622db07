// The text of schedules (printer.h) and the way back (parser.h), of every algorithm.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "proof/parser.h"
#include "proof/printer.h"
#include "property/schedule_worlds.h"

namespace nezha::schedule {
namespace {

class TextOfSchedules : public ::testing::TestWithParam<AlgorithmEntry> {};

TEST_P(TextOfSchedules, IsReadAgainAsTheSame) {
  for (const int ranks : {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 64}) {
    for (const int root : {0, ranks - 1}) {
      const World world = make_world(GetParam(), ranks, root);
      const std::string text = to_text(world);
      const Result<ScheduleText> read = parse_schedules(text);
      ASSERT_TRUE(read) << describe_world(world) << ": " << read.status().to_string();
      EXPECT_EQ(read.value().ranks, world) << describe_world(world);
      EXPECT_EQ(to_text(read.value().ranks), text) << describe_world(world);
    }
  }
}

// With a line missing, doubled, or moved up it is refused or another schedule, and never a crash.
TEST_P(TextOfSchedules, WithLinesInDisorderIsNotTheSame) {
  const World world = make_world(GetParam(), 5, 1);
  std::vector<std::string> lines;
  const std::string whole = to_text(world);
  for (size_t at = 0; at < whole.size(); at = whole.find('\n', at) + 1) {
    lines.push_back(whole.substr(at, whole.find('\n', at) + 1 - at));
  }
  std::mt19937_64 random(1);
  for (int attempt = 0; attempt < 200; ++attempt) {
    std::vector<std::string> changed = lines;
    const size_t at = random() % lines.size();
    if (lines[at] == "\n") continue;
    if (attempt % 2 == 0) {
      changed.erase(changed.begin() + static_cast<long>(at));
    } else {
      changed.insert(changed.begin() + static_cast<long>(at), lines[at]);
    }
    std::string text;
    for (const std::string& line : changed) text += line;
    const Result<ScheduleText> read = parse_schedules(text);
    if (!read) {
      EXPECT_EQ(read.status().message().substr(0, 5), "line ") << read.status().message();
    } else {
      EXPECT_NE(read.value().ranks, world) << lines[at];
    }
  }
}

std::string entry_name(const ::testing::TestParamInfo<AlgorithmEntry>& entry) {
  return std::string(name_of(entry.param.collective)) + "_" + std::string(name_of(entry.param.algorithm));
}

INSTANTIATE_TEST_SUITE_P(Schedule, TextOfSchedules, ::testing::ValuesIn(catalog()), entry_name);

}  // namespace
}  // namespace nezha::schedule
