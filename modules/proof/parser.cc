#include "proof/parser.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string>

#include "proof/printer.h"

namespace nezha::schedule {
namespace {

constexpr std::string_view kBlanks = " \t\r";
constexpr std::string_view kHead = "'all_reduce by ring: rank 0 of 4, root 0'";

bool is_word(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9') || letter == '_';
}

// The beginning of a text that may hold anything, for a sentence.
std::string shown(std::string_view text) {
  constexpr size_t kLongest = 40;
  if (text.empty()) return "the end of the line";
  std::string quoted = "'" + std::string(text.substr(0, kLongest)) + "'";
  for (char& letter : quoted) letter = letter >= ' ' && letter <= '~' ? letter : '?';
  return quoted;
}

Status wrong(std::string sentence) { return {Code::invalid_argument, std::move(sentence)}; }

// One line, word by word.
class Words {
 public:
  explicit Words(std::string_view line) : rest_(line.substr(0, line.find('#'))) {
    rest_ = rest_.substr(0, rest_.find_last_not_of(kBlanks) + 1);
    skip();
  }

  bool ended() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }

  // The next word; empty in front of a sign.
  std::string_view word() {
    const auto end = std::find_if_not(rest_.begin(), rest_.end(), is_word);
    return consume(static_cast<size_t>(end - rest_.begin()));
  }

  bool accept(std::string_view token) {
    const bool is_there = rest_.starts_with(token) &&
                          !(is_word(token.back()) && token.size() < rest_.size() &&
                            is_word(rest_[token.size()]));
    if (is_there) consume(token.size());
    return is_there;
  }

  // All of them, one after the other.
  Status expect(std::initializer_list<std::string_view> tokens) {
    for (const std::string_view token : tokens) {
      if (accept(token)) continue;
      return wrong("'" + std::string(token) + "' is expected, and not " + shown(rest_));
    }
    return Status::ok();
  }

  template <class Number>
  Status number(const char* what, uint32_t low, uint32_t high, Number* value) {
    uint32_t found = 0;
    const std::string_view before = rest_;
    const std::string_view digits = word();
    const auto [stop, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), found);
    const bool whole = failure == std::errc() && stop == digits.data() + digits.size();
    if (!whole || found < low || found > high) {
      return wrong(std::string(what) + " must be a whole number from " + std::to_string(low) + " to " +
                   std::to_string(high) + ", and not " + shown(before));
    }
    *value = static_cast<Number>(found);
    return Status::ok();
  }

  Status end() const {
    return ended() ? Status::ok() : wrong("the line is complete before " + shown(rest_));
  }

 private:
  std::string_view consume(size_t size) {
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    skip();
    return taken;
  }
  void skip() { rest_.remove_prefix(std::min(rest_.find_first_not_of(kBlanks), rest_.size())); }

  std::string_view rest_;
};

template <class Enum>
std::optional<Enum> find(std::string_view name, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (name_of(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

class Parser {
 public:
  Status line(std::string_view text) {
    ++number_;
    Words words(text);
    if (words.ended()) return Status::ok();
    const Status outcome = meaning(words);
    if (outcome) return outcome;
    return wrong("line " + std::to_string(number_) + ": " + outcome.message());
  }

  Result<ScheduleText> finish() {
    if (text_.ranks.empty()) return wrong("no schedule: the first line is as " + std::string(kHead));
    Status outcome = close_rank();
    const auto count = static_cast<int>(text_.ranks.size());
    if (outcome && count < first().world_size) {
      outcome = wrong("rank " + std::to_string(count) + " of " + std::to_string(first().world_size) +
                      " is missing");
    }
    if (!outcome) return wrong("line " + std::to_string(number_) + ": " + outcome.message());
    return std::move(text_);
  }

 private:
  Status meaning(Words& words) {
    const std::string_view whole = words.rest();
    const std::string_view name = words.word();
    if (const auto collective = find<Collective>(name, kCollectiveCount)) return head(words, *collective);
    const auto kind = find<StepKind>(name, kStepKindCount);
    if (!kind && name != "slice" && name != "round") {
      return wrong("a collective, 'slice', 'round' or a step (send, recv, recv_whole, recv_reduce, copy) "
                   "is expected, and not " + shown(whole));
    }
    if (text_.ranks.empty()) return wrong("before it a line is missing, as " + std::string(kHead));
    if (name == "slice") return slice(words);
    if (text_.ranks.back().programs.empty()) {
      return wrong("before it a line is missing, as 'slice 0, chunks of 1 parts'");
    }
    if (name == "round") return round(words);
    if (program().round_ends.empty()) return wrong("before it a line is missing, as 'round 0'");
    return step(words, *kind);
  }

  // "all_reduce by ring: rank 0 of 4, root 0"
  Status head(Words& words, Collective collective) {
    if (!text_.ranks.empty()) NEZHA_RETURN_IF_ERROR(close_rank());
    NEZHA_RETURN_IF_ERROR(words.expect({"by"}));
    const std::string_view before = words.rest();
    const auto algorithm = find<Algorithm>(words.word(), kAlgorithmCount);
    if (!algorithm || *algorithm == Algorithm::automatic) {
      return wrong("the name of an algorithm is expected, such as 'ring', and not " + shown(before));
    }
    Schedule schedule{collective, *algorithm, 0, 1, 0, {}};
    NEZHA_RETURN_IF_ERROR(words.expect({":", "rank"}));
    NEZHA_RETURN_IF_ERROR(words.number("the rank", 0, kScheduleTextRanksMax - 1, &schedule.rank));
    NEZHA_RETURN_IF_ERROR(words.expect({"of"}));
    NEZHA_RETURN_IF_ERROR(
        words.number("the number of ranks", 1, kScheduleTextRanksMax, &schedule.world_size));
    NEZHA_RETURN_IF_ERROR(words.expect({",", "root"}));
    const auto last = static_cast<uint32_t>(schedule.world_size) - 1;
    NEZHA_RETURN_IF_ERROR(words.number("the root", 0, last, &schedule.root));
    NEZHA_RETURN_IF_ERROR(words.end());
    NEZHA_RETURN_IF_ERROR(fits(schedule));
    text_.ranks.push_back(std::move(schedule));
    text_.lines.emplace_back();
    return Status::ok();
  }

  Status fits(const Schedule& next) const {
    const auto due = static_cast<int>(text_.ranks.size());
    if (due > 0 && (next.collective != first().collective || next.algorithm != first().algorithm ||
                    next.world_size != first().world_size || next.root != first().root)) {
      return wrong("rank " + std::to_string(next.rank) + " is of another operation than rank 0");
    }
    if (next.rank != due || due >= next.world_size) {
      return wrong("rank " + std::to_string(next.rank) + " stands where rank " + std::to_string(due) +
                   " of " + std::to_string(next.world_size) + " is due");
    }
    return Status::ok();
  }

  // "slice 0, chunks of 4 parts"
  Status slice(Words& words) {
    NEZHA_RETURN_IF_ERROR(close_round());
    std::vector<Program>& programs = text_.ranks.back().programs;
    const auto due = static_cast<uint32_t>(programs.size());
    if (due == kScheduleTextSlicesMax) return wrong("too many slices");
    Program next;
    NEZHA_RETURN_IF_ERROR(next_number(words, "the slice", due));
    NEZHA_RETURN_IF_ERROR(words.expect({",", "chunks", "of"}));
    NEZHA_RETURN_IF_ERROR(words.number("the number of parts", 1, kScheduleTextPartsMax, &next.parts));
    NEZHA_RETURN_IF_ERROR(words.expect({"parts"}));
    NEZHA_RETURN_IF_ERROR(words.end());
    const bool is_known = text_.ranks.size() == 1 || (due < first().slices() &&
                                                      next.parts == first().programs[due].parts);
    if (!is_known) {
      return wrong("rank 0 has no slice " + std::to_string(due) + " in chunks of " +
                   std::to_string(next.parts) + " parts");
    }
    programs.push_back(std::move(next));
    text_.lines.back().emplace_back();
    return Status::ok();
  }

  // "round 0"
  Status round(Words& words) {
    NEZHA_RETURN_IF_ERROR(close_round());
    NEZHA_RETURN_IF_ERROR(next_number(words, "the round", program().round_count()));
    NEZHA_RETURN_IF_ERROR(words.end());
    program().round_ends.push_back(static_cast<uint32_t>(program().steps.size()));
    return Status::ok();
  }

  // "send parts [0, 1) to rank 2 (stage 0, slot 0), from_input"
  Status step(Words& words, StepKind kind) {
    if (program().steps.size() == kScheduleTextStepsMax) {
      return wrong("a rank may have " + std::to_string(kScheduleTextStepsMax) + " steps in a slice");
    }
    Step next;
    next.kind = kind;
    NEZHA_RETURN_IF_ERROR(words.expect({"parts", "["}));
    NEZHA_RETURN_IF_ERROR(words.number("the first part", 0, program().parts, &next.part_begin));
    NEZHA_RETURN_IF_ERROR(words.expect({","}));
    NEZHA_RETURN_IF_ERROR(
        words.number("the part behind the last", next.part_begin, program().parts, &next.part_end));
    NEZHA_RETURN_IF_ERROR(words.expect({")"}));
    if (kind != StepKind::copy) NEZHA_RETURN_IF_ERROR(transfer(words, &next));
    while (words.accept(",")) {
      const std::string_view before = words.rest();
      const std::string_view name = words.word();
      const auto flag = std::find_if(std::begin(kStepFlags), std::end(kStepFlags),
                                     [&](const StepFlag& each) { return each.name == name; });
      if (flag == std::end(kStepFlags)) {
        return wrong("from_input, in_workspace, copy_source, peer_first or final is expected, and not " +
                     shown(before));
      }
      next.*flag->member = true;
    }
    NEZHA_RETURN_IF_ERROR(words.end());
    program().steps.push_back(next);
    ++program().round_ends.back();
    text_.lines.back().back().push_back(number_);
    return Status::ok();
  }

  Status transfer(Words& words, Step* next) {
    constexpr uint32_t kTagMax = std::numeric_limits<uint16_t>::max();
    const auto last = static_cast<uint32_t>(first().world_size) - 1;
    NEZHA_RETURN_IF_ERROR(words.expect({next->kind == StepKind::send ? "to" : "from", "rank"}));
    NEZHA_RETURN_IF_ERROR(words.number("the other rank", 0, last, &next->peer));
    NEZHA_RETURN_IF_ERROR(words.expect({"(", "stage"}));
    NEZHA_RETURN_IF_ERROR(words.number("the stage", 0, kTagMax, &next->stage));
    NEZHA_RETURN_IF_ERROR(words.expect({",", "slot"}));
    NEZHA_RETURN_IF_ERROR(words.number("the slot", 0, kTagMax, &next->slot));
    return words.expect({")"});
  }

  Status next_number(Words& words, const char* what, uint32_t due) {
    uint32_t found = 0;
    return words.number(what, due, due, &found);
  }

  // A round that is over has steps.
  Status close_round() {
    const std::vector<Program>& programs = text_.ranks.back().programs;
    if (programs.empty() || programs.back().round_ends.empty()) return Status::ok();
    const uint32_t last = programs.back().round_count() - 1;
    if (!programs.back().round(last).empty()) return Status::ok();
    return wrong("round " + std::to_string(last) + " before it has no steps");
  }

  Status close_rank() {
    NEZHA_RETURN_IF_ERROR(close_round());
    const Schedule& last = text_.ranks.back();
    if (last.slices() > 0 && last.slices() == first().slices()) return Status::ok();
    return wrong("rank " + std::to_string(last.rank) + " before it has " + std::to_string(last.slices()) +
                 " slices, and must have " + std::to_string(std::max<uint32_t>(1, first().slices())));
  }

  const Schedule& first() const { return text_.ranks.front(); }
  Program& program() { return text_.ranks.back().programs.back(); }

  ScheduleText text_;
  uint32_t number_ = 0;  // of the line
};

}  // namespace

Result<ScheduleText> parse_schedules(std::string_view text) {
  if (text.size() > kScheduleTextBytesMax) {
    return error(Code::invalid_argument, "the text of schedules may have up to %zu bytes",
                 kScheduleTextBytesMax);
  }
  Parser parser;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    NEZHA_RETURN_IF_ERROR(parser.line(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parser.finish();
}

}  // namespace nezha::schedule
