#include "proof/hazards.h"

#include <algorithm>
#include <vector>

namespace nezha::schedule {
namespace {

bool overlap(const Step& a, const Step& b) {
  return std::max(a.part_begin, b.part_begin) < std::min(a.part_end, b.part_end);
}

// Checks that one write comes after all earlier uses of the same memory, and beside no other use in
// its own round but sends, which took their source when the round started.
class WriteCheck {
 public:
  WriteCheck(const SliceLinks& links, const Contract& contract, const Flow& flow,
             const Place& write)
      : links_(links), contract_(contract), flow_(flow), write_(write), step_(links.step(write)),
        earliest_(earliest_moment()) {}

  // `earlier` is of an earlier round or of the same one.
  Status follows(const Place& earlier) const {
    const Step& use = links_.step(earlier);
    if (!overlap(use, step_) || !replaces_what_it_uses(use)) return Status::ok();
    if (use.kind == StepKind::send) return follows_send(earlier, use);
    if (earlier.round == write_.round) {
      return broken(earlier, "one step of a round writes what another one uses");
    }
    if (step_.kind == StepKind::recv && !Flow::has_ended(earliest_, write_.rank, earlier.round)) {
      return broken(earlier, "may land while the earlier round still uses the parts");
    }
    return Status::ok();
  }

 private:
  bool is_same(Location a, Location b) const {
    if (a == Location::nowhere || b == Location::nowhere) return false;
    return a == b || (contract_.may_be_in_place() && a != Location::workspace &&
                      b != Location::workspace);
  }

  bool replaces_what_it_uses(const Step& use) const {
    const Location target = write_location(step_);
    if (is_same(write_location(use), target)) return true;
    // In place, input and output of such a copy are the same memory: it changes nothing.
    const bool changes_input = step_.kind != StepKind::copy || !step_.from_input;
    const Location source = read_location(use);
    return is_same(source, target) && (changes_input || source != Location::input);
  }

  // A `recv` may land as soon as it was sent; the rest waits for its own round, too.
  Moment earliest_moment() const {
    Moment moment(links_.ranks.size(), 0);
    if (receives(step_)) {
      const Place& source = links_.other_end[write_.rank][write_.step];
      moment = flow_.start_of(source.rank, source.round);
    }
    if (step_.kind == StepKind::recv) return moment;
    const Moment& own = flow_.start_of(write_.rank, write_.round);
    for (size_t i = 0; i < moment.size(); ++i) moment[i] = std::max(moment[i], own[i]);
    return moment;
  }

  Status follows_send(const Place& earlier, const Step& send) const {
    if (send.copy_source) {
      if (Flow::has_started(earliest_, write_.rank, earlier.round)) return Status::ok();
      return broken(earlier, "may land before the private copy was taken");
    }
    const Place& receipt = links_.other_end[earlier.rank][earlier.step];
    if (Flow::has_ended(earliest_, receipt.rank, receipt.round)) return Status::ok();
    return broken(earlier, "may overwrite a source before its delivery");
  }

  Status broken(const Place& earlier, const char* sentence) const {
    return error(Code::internal, "%s: %s: %s", describe(links_, write_).c_str(), sentence,
                 describe(links_, earlier).c_str());
  }

  const SliceLinks& links_;
  const Contract& contract_;
  const Flow& flow_;
  const Place write_;
  const Step& step_;
  const Moment earliest_;
};

}  // namespace

Status check_hazards(const SliceLinks& links, const Contract& contract, const Flow& flow,
                     int rank) {
  std::vector<Place> uses;  // of the rounds up to this one
  const Program& program = links.program(rank);
  for (uint32_t round = 0; round < program.round_count(); ++round) {
    const auto begin = static_cast<uint32_t>(uses.size());
    const uint32_t end = program.round_ends[round];
    for (uint32_t i = begin; i < end; ++i) uses.push_back({rank, round, i});
    for (uint32_t i = begin; i < end; ++i) {
      if (program.steps[i].kind == StepKind::send) continue;
      const WriteCheck check(links, contract, flow, uses[i]);
      for (uint32_t other = 0; other < end; ++other) {
        if (other != i) NEZHA_RETURN_IF_ERROR(check.follows(uses[other]));
      }
    }
  }
  return Status::ok();
}

}  // namespace nezha::schedule
