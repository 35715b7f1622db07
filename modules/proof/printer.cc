#include "proof/printer.h"

#include <utility>

namespace nezha::schedule {
namespace {

constexpr std::string_view kKindNames[kStepKindCount] = {"send", "recv", "recv_whole", "recv_reduce",
                                                         "copy"};

std::string number(int64_t value) { return std::to_string(value); }

std::string quoted(std::string_view text) { return '"' + std::string(text) + '"'; }

std::string step_json(const Step& step) {
  std::string json = "{\"kind\": " + quoted(name_of(step.kind)) + ", \"peer\": " +
                     number(step.peer) + ", \"parts\": [" + number(step.part_begin) + ", " +
                     number(step.part_end) + "], \"stage\": " + number(step.stage) +
                     ", \"slot\": " + number(step.slot);
  for (const StepFlag& flag : kStepFlags) {
    if (step.*flag.member) json += ", " + quoted(flag.name) + ": true";
  }
  return json + "}";
}

std::string program_json(const Program& program) {
  std::string json = "{\"parts\": " + number(program.parts) + ", \"rounds\": [";
  for (uint32_t round = 0; round < program.round_count(); ++round) {
    json += round == 0 ? "[" : ", [";
    bool first = true;
    for (const Step& step : program.round(round)) {
      json += (std::exchange(first, false) ? "" : ", ") + step_json(step);
    }
    json += "]";
  }
  json += "]";
  if (program.closing != Program::kNever) json += ", \"closing\": " + number(program.closing);
  return json + "}";
}

}  // namespace

std::string_view name_of(StepKind kind) {
  const auto index = static_cast<size_t>(kind);
  return index < std::size(kKindNames) ? kKindNames[index] : std::string_view("unknown");
}

std::string to_text(const Step& step) {
  std::string text(name_of(step.kind));
  text += " parts [" + number(step.part_begin) + ", " + number(step.part_end) + ")";
  if (step.peer >= 0) {
    text += step.kind == StepKind::send ? " to rank " : " from rank ";
    text += number(step.peer) + " (stage " + number(step.stage) + ", slot " + number(step.slot) +
            ")";
  }
  for (const StepFlag& flag : kStepFlags) {
    if (step.*flag.member) text += ", " + std::string(flag.name);
  }
  return text;
}

std::string to_text(const Schedule& schedule) {
  std::string text = std::string(name_of(schedule.collective)) + " by " +
                     std::string(name_of(schedule.algorithm)) + ": rank " +
                     number(schedule.rank) + " of " + number(schedule.world_size) + ", root " +
                     number(schedule.root) + "\n";
  for (uint32_t slice = 0; slice < schedule.slices(); ++slice) {
    const Program& program = schedule.programs[slice];
    text += "slice " + number(slice) + ", chunks of " + number(program.parts) + " parts\n";
    for (uint32_t round = 0; round < program.round_count(); ++round) {
      text += "  round " + number(round);
      text += round < program.closing ? "\n" : ", behind the last chunk\n";
      for (const Step& step : program.round(round)) text += "    " + to_text(step) + "\n";
    }
  }
  return text;
}

std::string to_text(std::span<const Schedule> ranks) {
  std::string text;
  for (const Schedule& schedule : ranks) text += (text.empty() ? "" : "\n") + to_text(schedule);
  return text;
}

std::string to_json(const Schedule& schedule) {
  std::string json = "{\"collective\": " + quoted(name_of(schedule.collective)) +
                     ", \"algorithm\": " + quoted(name_of(schedule.algorithm)) +
                     ", \"rank\": " + number(schedule.rank) + ", \"world_size\": " +
                     number(schedule.world_size) + ", \"root\": " + number(schedule.root) +
                     ", \"slices\": [";
  bool first = true;
  for (const Program& program : schedule.programs) {
    json += (std::exchange(first, false) ? "" : ", ") + program_json(program);
  }
  return json + "]}";
}

}  // namespace nezha::schedule
