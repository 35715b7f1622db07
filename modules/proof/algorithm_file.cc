#include "proof/algorithm_file.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "proof/contract.h"
#include "proof/links.h"
#include "schedule/catalog.h"

namespace nezha::schedule {
namespace {

static_assert(kScheduleTextRanksMax <= kProvableRanksMax);
// A moment of a proof counts rounds twice in 16 bits (flow.h).
static_assert(2 * kScheduleTextStepsMax + 2 <= 0xFFFF);

Status check_collective(Collective collective) {
  if (collective != Collective::all_to_all_v && collective != Collective::send_recv) return Status::ok();
  return error(Code::unsupported, "%s takes no algorithm from a file: its ranks know only the lengths of "
               "their own blocks", name_of(collective).data());
}

// Counts what passes between pairs of ranks, and checks the limits of algorithm_file.h.
class Pairs {
 public:
  explicit Pairs(const ScheduleText& text)
      : text_(text), size_(text.ranks.size()), messages_(size_ * size_) {}

  Status measure() {
    for (const Schedule& schedule : text_.ranks) {
      for (uint32_t slice = 0; slice < schedule.slices(); ++slice) {
        NEZHA_RETURN_IF_ERROR(measure(schedule, slice));
      }
    }
    return Status::ok();
  }
  uint64_t messages() const { return all_messages_; }
  uint32_t load() const { return load_; }

 private:
  Status measure(const Schedule& schedule, uint32_t slice) {
    std::unordered_map<uint64_t, uint32_t> sent;  // by peer and part
    const Program& program = schedule.programs[slice];
    for (uint32_t i = 0; i < program.steps.size(); ++i) {
      const Step& step = program.steps[i];
      moves_ += step.part_end - step.part_begin;
      const auto rank = static_cast<size_t>(schedule.rank);
      const uint32_t line = text_.lines[rank][slice][i];
      if (moves_ > kPartMovesMax) {
        return error(Code::invalid_argument, "line %u: the steps up to here move more than %llu parts",
                     line, static_cast<unsigned long long>(kPartMovesMax));
      }
      if (step.kind != StepKind::send) continue;
      const auto peer = static_cast<size_t>(step.peer);
      ++all_messages_;
      if (++messages_[rank * size_ + peer] > kPairMessagesMax) {
        return error(Code::invalid_argument, "line %u: rank %d sends rank %d more than %u messages", line,
                     schedule.rank, step.peer, kPairMessagesMax);
      }
      for (uint32_t part = step.part_begin; part < step.part_end; ++part) {
        const uint32_t times = ++sent[(uint64_t{peer} << 32) | part];
        load_ = std::max(load_, times);
        if (times > kPairLoadMax) {
          return error(Code::invalid_argument, "line %u: rank %d sends rank %d part %u of slice %u more "
                       "than %u times", line, schedule.rank, step.peer, part, slice, kPairLoadMax);
        }
      }
    }
    return Status::ok();
  }

  const ScheduleText& text_;
  const size_t size_;
  std::vector<uint32_t> messages_;  // [source x ranks + target]
  uint64_t all_messages_ = 0;
  uint64_t moves_ = 0;
  uint32_t load_ = 1;
};

class Reader final : public AlgorithmReader {
 public:
  Result<FileAlgorithm> read(std::string_view text) const override {
    auto proved = prove_algorithm(text);
    if (!proved) return proved.status();
    return std::move(proved->algorithm);
  }
};

}  // namespace

Result<ProvedAlgorithm> prove_algorithm(std::string_view text) {
  Result<ScheduleText> read = parse_schedules(text);
  if (!read) return read.status();
  std::vector<Schedule>& ranks = read->ranks;
  NEZHA_RETURN_IF_ERROR(check_collective(ranks.front().collective));
  Pairs pairs(*read);
  NEZHA_RETURN_IF_ERROR(pairs.measure());
  const Result<Proof> proof = verify(ranks, &read->lines);
  if (!proof) return Status(Code::invalid_argument, proof.status().message());
  Result<Contract> contract = Contract::of(ranks);
  if (!contract) return contract.status();
  ProvedAlgorithm proved{{}, proof.value(), pairs.messages()};
  Shape& shape = proved.algorithm.shape;
  shape.slices = ranks.front().slices();
  for (const Program& program : ranks.front().programs) {
    shape.parts = std::max(shape.parts, program.parts);
  }
  shape.exchanges = !proof.value().consumes_on_arrival;
  shape.geometry = contract->geometry();
  shape.pair_load = pairs.load();
  shape.pair_header_bytes = kPairMessagesMax * kMessageHeaderBytes;
  for (Schedule& schedule : ranks) schedule.algorithm = Algorithm::file;
  proved.algorithm.ranks = std::move(ranks);
  return proved;
}

const AlgorithmReader& algorithm_reader() {
  static const Reader reader;
  return reader;
}

}  // namespace nezha::schedule
