// Schedules that a user wrote: what the parser takes, and the sentence about what it does not.
#include "proof/parser.h"

#include <gtest/gtest.h>

#include <string>

#include "proof/printer.h"

namespace nezha::schedule {
namespace {

constexpr const char* kTwoRanks = R"(# a broadcast, as somebody writes it
broadcast by chain: rank 0 of 2, root 0
slice 0,chunks of 1 parts
round 0
	send  parts [ 0,1 )  to rank 1 (stage 0,slot 0), from_input   # all of it

broadcast by chain: rank 1 of 2, root 0
slice 0, chunks of 1 parts
round 0
recv parts [0, 1) from rank 0 (stage 0, slot 0)
)";

std::string with(std::string_view from, std::string_view to) {
  std::string text = kTwoRanks;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(ScheduleParser, TakesBlanksAndCommentsAndKnowsTheLines) {
  const Result<ScheduleText> read = parse_schedules(kTwoRanks);
  ASSERT_TRUE(read) << read.status().to_string();
  ASSERT_EQ(read.value().ranks.size(), 2u);
  EXPECT_EQ(to_text(read.value().ranks[0]),
            "broadcast by chain: rank 0 of 2, root 0\nslice 0, chunks of 1 parts\n  round 0\n"
            "    send parts [0, 1) to rank 1 (stage 0, slot 0), from_input\n");
  EXPECT_EQ(read.value().lines, (StepLines{{{5}}, {{10}}}));
}

struct Wrong {
  std::string text;
  const char* sentence;
};

TEST(ScheduleParser, SaysInOneSentenceWithTheLineWhatIsWrong) {
  const Wrong cases[] = {
      {"", "no schedule: the first line is as 'all_reduce by ring: rank 0 of 4, root 0'"},
      {"slice 0, chunks of 1 parts\n", "line 1: before it a line is missing, as 'all_reduce by ring"},
      {with("broadcast by", "broadkast by"), "line 2: a collective, 'slice', 'round' or a step (send, "
                                             "recv,"},
      {with("by chain", "by train"), "line 2: the name of an algorithm is expected, such as 'ring', "
                                     "and not "
                                     "'train: rank 0 of 2, root 0'"},
      {with("by chain", "by auto"), "line 2: the name of an algorithm is expected"},
      {with("rank 0 of 2", "rank 0 of 65"), "line 2: the number of ranks must be a whole number from 1 "
                                            "to 64, "
                                            "and not '65, root 0'"},
      {with("root 0", "root 2"), "line 2: the root must be a whole number from 0 to 1"},
      {with("root 0", "root 0 0"), "line 2: the line is complete before '0'"},
      {with("of 1 parts", "of 0 parts"), "line 3: the number of parts must be a whole number from 1 to "
                                         "1024"},
      {with("round 0", "round 1"), "line 4: the round must be a whole number from 0 to 0, and not '1'"},
      {with("round 0", "round 0\nround 1"), "line 5: round 0 before it has no steps"},
      {with("round 0\n", ""), "line 4: before it a line is missing, as 'round 0'"},
      {with("send  parts", "sendparts"), "line 5: a collective, 'slice'"},
      {with("[ 0,1 )", "[0, 2)"), "line 5: the part behind the last must be a whole number from 0 to 1"},
      {with("[ 0,1 )", "[0, -1)"), "line 5: the part behind the last must be a whole number from 0 to "
                                   "1, and "
                                   "not '-1)"},
      {with("to rank 1", "from rank 1"), "line 5: 'to' is expected, and not 'from rank 1 (stage"},
      {with("to rank 1", "to rank 2"), "line 5: the other rank must be a whole number from 0 to 1"},
      {with("stage 0", "stage 65536"), "line 5: the stage must be a whole number from 0 to 65535"},
      {with("from_input", "from_output"), "line 5: from_input, in_workspace, copy_source, peer_first "
                                          "or final "
                                          "is expected, and not 'from_output'"},
      {with("from_input", "from_input\x01\xff"), "line 5: the line is complete before '??"},
      {with("rank 1 of 2", "rank 0 of 2"), "line 7: rank 0 stands where rank 1 of 2 is due"},
      {with("rank 1 of 2, root 0", "rank 1 of 2, root 1"), "line 7: rank 1 is of another operation "
                                                           "than rank 0"},
      {with("slice 0, chunks", "slice 1, chunks"), "line 8: the slice must be a whole number from 0 to "
                                                   "0"},
      {with("slice 0, chunks of 1", "slice 0, chunks of 2"), "line 8: rank 0 has no slice 0 in chunks "
          "of 2 parts"},
      {std::string(kTwoRanks) + "slice 1, chunks of 1 parts\n", "line 11: rank 0 has no slice 1"},
      {std::string(kTwoRanks).substr(0,
          std::string_view(kTwoRanks).find("\nbroadcast by chain: rank 1")), "line 5: rank 1 of 2 is "
              "missing"},
      {std::string(kScheduleTextBytesMax + 1, '\n'), "the text of schedules may have up to 8388608 "
                                                     "bytes"},
  };
  for (const Wrong& at : cases) {
    const Result<ScheduleText> read = parse_schedules(at.text);
    ASSERT_FALSE(read) << at.sentence;
    EXPECT_EQ(read.status().code(), Code::invalid_argument);
    EXPECT_EQ(read.status().message().substr(0, std::string_view(at.sentence).size()), at.sentence);
  }
}

}  // namespace
}  // namespace nezha::schedule
