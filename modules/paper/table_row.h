// TableRow: one row of the data length table, and the search that fills it.
//
// A row is made for one (collective, size class, group) and one set of rails that are up. Eq. 1
// with predicted times decides where it starts:
//   singles  (cold start) operations go to one rail at a time, until each was timed
//   all      (hot start) equal shares, then Eq. 2, then 1 % steps from the slowest rail to the
//            fastest until the slowest stops falling: settled
//   single   one rail is best
// Times on all rails are judged by their median: one operation in which a host was busy must not make
// a row cold. A settled hot row times its main rail alone once, and again whenever it seems to have
// become the better one, so that the better of the two states is known by measurement; a cold row near
// the threshold tries all rails for the same reason. Hot rows keep watching: when the rails' times drift
// apart by more than 10 % in two operations running, Eq. 2 is applied to those two without waiting
// for the mean of ten. A rail without a share has no times in the samples: its measured rate
// counts.
//
// Contract: pure, single-threaded. Samples may come late or from before the last decision: they are
// judged by the bytes that really went on each rail.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "rails/policies/interference.h"
#include "rails/policy.h"

namespace nezha::rails {

class TableRow {
 public:
  static constexpr uint32_t kTimerOps = 10;   // the paper's Timer: mean of ten operations
  static constexpr uint32_t kSingleOps = 3;   // to time a rail alone

  enum class State : uint8_t { singles, all, single };

  // The part of a row that is saved, loaded and shown.
  struct Learned {
    uint32_t rails = 0;
    uint32_t up_mask = 0;
    State state = State::singles;
    bool settled = false;
    int single_rail = 0;
    std::array<double, kRailsMax> share{};     // sum 1 over the rails in use
    std::array<double, kRailsMax> single_s{};  // time on that rail alone; 0 unknown
    double all_s = 0;                          // time on all rails; 0 unknown
    uint64_t operations = 0;
  };

  TableRow(const OpClass& op, std::span<const RailSnapshot> rails, const RailModel& model);
  explicit TableRow(const Learned& learned);
  // A row in place of this one, which no longer holds. The rates are measured ones by now, so the
  // new row starts with the shares that they promise, and does not time single rails first.
  TableRow again(const OpClass& op, std::span<const RailSnapshot> rails, const RailModel& model) const;

  Shares shares() const;
  // To be called before each operation. True when the row must be made again: the measured rate of
  // a rail that decided it has changed, or splitting still promises a gain that a measurement did
  // not show.
  bool questioned_by(const RailCosts& now, bool split_promises);
  // Whether the times on one rail changed so much, though its rate did not, that all must be timed
  // again.
  bool outdated() const { return outdated_; }
  // `model` has learned from the sample before.
  void learn(const OpSample& sample, const RailModel& model);
  const Learned& learned() const { return learned_; }

  uint64_t last_used = 0;  // for the table, which drops the row unused for longest

 private:
  struct Timer {  // of some operations, sums where nothing else is said
    uint32_t operations = 0;  // at most kTimerOps
    std::array<double, kTimerOps> total_s{};  // of each
    std::array<double, kRailsMax> rail_s{};
    std::array<double, kRailsMax> bytes{};
    std::array<uint32_t, kRailsMax> seen{};
    void add(const OpSample& sample);
    double median_total_s() const;
  };
  struct Times {  // of the rails that have a share and carried something; 0 for the others
    std::array<double, kRailsMax> rail_s{};
    int slowest = -1;
    int fastest = -1;
    uint32_t rails = 0;
    double spread() const;  // 0: all equal, 1: one takes no time
  };

  bool is_up(size_t rail) const { return (learned_.up_mask >> rail & 1) != 0; }
  bool credible(const OpSample& sample) const;
  int candidate() const;
  void learn_single(int rail, double total_s);
  void learn_all(const OpSample& sample, const RailModel& model);
  bool drifts(const Times& times);
  void follow(const Timer& both, const RailModel& model);
  void finish_timer();
  void search(const Times& times, double slowest_s);
  void settle(const Times& times);
  void time_main_rail(bool anew);
  void start_search();
  void apply_eq2(const Times& times);
  void drop_useless_rails(const std::array<double, kRailsMax>& carried, const Times& times);
  void drop_below(double share);
  void drop(size_t rail);
  uint32_t scale_shares();
  void rescale();
  void decide(bool hot_now);
  void go_single(int rail);
  Times times_of(const Timer& timer) const;

  Learned learned_;
  bool outdated_ = false;
  bool try_all_ = false;     // cold by prediction, but near enough to look
  uint32_t candidates_ = 0;  // bit set of rails to time alone
  std::array<uint8_t, kRailsMax> order_{};  // rails by predicted time
  std::array<uint32_t, kRailsMax> single_ops_{};
  double reference_s_ = 0;   // the single rail's time at the decision
  RailCosts decided_by_{};   // what was known when the state or the set of rails was decided
  RailCosts seen_{};         // what was known before the latest operation
  uint64_t decided_at_ = 0;  // operations
  uint64_t patience_;        // operations after which splitting is tried again
  bool impatient_ = false;   // the row was questioned for that reason

  Timer timer_;              // of the window of ten
  Timer previous_;           // the operation before this one
  int drift_key_ = -1;       // which rail drifted in the operation before, and to which side
  uint32_t quick_updates_ = 0;  // since the last full Timer
  std::array<double, kRailsMax> balance_{};  // expected rail time / slowest rail time
  double last_slowest_s_ = 0;
  bool stepping_ = false;
  std::array<double, kRailsMax> share_before_step_{};
  Times times_before_step_;
  struct Point {
    double share = 0;
    double seconds = 0;
  };
  std::array<Point, kRailsMax> point_{};  // before the last Eq. 2
};

}  // namespace nezha::rails
