#include "planted/phases.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "planted/random_steps.h"
#include "support/phase_case.h"
#include "support/shared_area.h"

namespace nezha::simulation {
namespace {

using memory::Area;
using memory::Backward;
using memory::Phase;
using memory::PhaseKind;

constexpr int64_t kFromElsewhere = 1'000'000;  // what messages add to every element

// One operation at one rank. Some collect nothing, as an all_gather does: every owner has its runs.
class Operation {
 public:
  Operation(Area& first, Area& second, Backward& runs, uint64_t number)
      : runs_(runs), rank_(first.rank()), in_(runs.total), out_(runs.total, -1), want_(runs.total) {
    const int64_t ranks = first.ranks();
    const bool collects = number % 4 != 3;
    const int64_t factor = number % 4 == 1 ? 3 : 1;  // of inputs that are scaled
    for (uint64_t i = 0; i < runs.total; ++i) {
      const auto value = static_cast<int64_t>(i % 1000) * ranks;
      in_[i] = value + rank_ + 1;
      want_[i] = (collects ? factor * (value * ranks + ranks * (ranks + 1) / 2) : value) +
                 kFromElsewhere;
    }
    for (uint32_t run = 0; !collects && run < runs.count(); ++run) change(run, [&](uint64_t i) {
      return static_cast<int64_t>(i % 1000) * ranks;
    });
    memory::Call call = memory::call_of(runs.total, in_, out_, number);
    if (factor != 1) call.op.op = ReduceOp::premul_sum, call.factor = static_cast<double>(factor);
    if (collects) collect_.emplace(PhaseKind::collect, first, runs, call);
    hand_out_.emplace(PhaseKind::hand_out, second, runs, call);
  }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  bool advance(bool sleeps) {
    bool moved = false;
    if (collect_) moved |= sleeps ? collect_->sleep(0) : collect_->advance(0);
    moved |= sleeps ? hand_out_->sleep(ready_) : hand_out_->advance(ready_);
    return moved;
  }
  // Messages may come for a run.
  bool has_messages() const { return ready_ < (collect_ ? collect_->through() : runs_.count()); }
  void receive() {
    change(ready_++, [&](uint64_t i) { return out_[i] + kFromElsewhere; });
  }
  bool is_over() const { return hand_out_->is_over(); }
  const char* wrong() const {
    if (hand_out_->disagrees() >= 0 || (collect_ && collect_->disagrees() >= 0)) {
      return "takes another's call for a different one";
    }
    return is_over() && out_ != want_ ? "has a wrong result" : nullptr;
  }

 private:
  template <class Value>
  void change(uint32_t number, Value value) {
    const memory::Run run = runs_.at(number);
    if (run.owner != rank_) return;
    for (uint64_t i = run.begin; i < run.begin + run.size; ++i) out_[i] = value(i);
  }

  Backward& runs_;
  const int rank_;
  std::vector<int64_t> in_, out_, want_;
  std::optional<Phase> collect_;
  std::optional<Phase> hand_out_;
  uint32_t ready_ = 0;
};

class Job {
 public:
  explicit Job(uint64_t seed) : random_(seed), ranks_(2 + static_cast<int>(random_() % 4)) {
    for (int i = 0; i < 6; ++i) cuts_.push_back(random_cut());
    for (int rank = 0; rank < ranks_; ++rank) members_.push_back(std::make_unique<Member>(*this, rank));
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  std::string run() {
    const auto is_over = [&](const Member& member) {
      return member.next == cuts_.size() && member.running.empty();
    };
    return take_random_steps(members_, random_, wrong_, is_over, [&](Member& member) { step(member); });
  }

 private:
  struct Member final : memory::Bells {
    Member(Job& of, int number)
        : job(of), rank(number), first(of.first_.get(), of.ranks_, number, *this),
          second(of.second_.get(), of.ranks_, number, *this) {}
    void ring(uint64_t members) override { job.rung(members); }

    Job& job;
    const int rank;
    Area first;
    Area second;
    size_t next = 0;
    std::vector<std::unique_ptr<Operation>> running;
    bool sleeps = false;
    bool moves = false;  // a step of it is under way
  };

  Backward random_cut() {
    const uint64_t slot = Area::slot_bytes(ranks_) / sizeof(int64_t);
    std::vector<uint64_t> sizes;
    const bool is_long = random_() % 3 == 0;
    for (uint64_t runs = random_() % 2 == 0 ? 1 : 1 + random_() % 12; runs > 0; --runs) {
      sizes.push_back(random_() % (is_long ? 2 * slot : 200));
      if (random_() % 4 == 0) sizes.back() = random_() % 2 * slot;
    }
    return Backward(sizes, ranks_);
  }
  void step(Member& member) {
    member.moves = true;
    member.first.wake();
    member.second.wake();
    if (member.next < cuts_.size() && member.running.size() < 3 && random_() % 3 == 0) {
      member.running.push_back(std::make_unique<Operation>(member.first, member.second,
                                                           cuts_[member.next], member.next));
      ++member.next;
    }
    const bool may_sleep = random_() % 4 == 0;
    bool moved = false;
    for (const auto& operation : member.running) {
      if (operation->has_messages() && random_() % 2 == 0) operation->receive(), moved = true;
      moved |= operation->advance(may_sleep);
      if (const char* what = operation->wrong()) say(member, what);
    }
    const bool waits = std::none_of(member.running.begin(), member.running.end(),
                                    [](const auto& each) { return each->has_messages(); });
    const bool may_begin = member.next < cuts_.size() && member.running.size() < 3;
    member.sleeps = may_sleep && !moved && waits && !may_begin;
    std::erase_if(member.running, [](const auto& each) { return each->is_over(); });
    member.sleeps &= !member.running.empty();
    member.moves = false;
  }
  void rung(uint64_t members) {
    for (const auto& member : members_) {
      if ((members >> member->rank & 1) == 0) continue;
      member->sleeps = false;
      if (!member->moves && wrong_.empty()) step(*member);
    }
  }
  void say(const Member& member, const char* what) {
    if (!wrong_.empty()) return;
    wrong_ = "rank " + std::to_string(member.rank) + " of " + std::to_string(ranks_) + " " + what;
  }

  std::mt19937_64 random_;
  const int ranks_;
  const memory::AreaBytes first_{ranks_};
  const memory::AreaBytes second_{ranks_};
  std::vector<Backward> cuts_;
  std::vector<std::unique_ptr<Member>> members_;
  std::string wrong_;
};

}  // namespace

std::string run_phases(uint64_t seed) { return Job(seed).run(); }

}  // namespace nezha::simulation
