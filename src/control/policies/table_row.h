// TableRow: one row of the data length table, and the search that fills it.
//
// A row is made for one (collective, size class, group) and one set of rails that are up. Eq. 1
// with predicted times decides where it starts:
//   singles  (cold start) operations go to one rail at a time, until each was timed
//   all      (hot start) equal shares, then Eq. 2, then 1 % steps from the slowest rail to the
//            fastest until the slowest stops falling: settled
//   single   one rail is best
// A settled hot row times its main rail alone once, so that the better of the two states is known
// by measurement; a cold row near the threshold tries all rails for the same reason. Rows keep
// watching: when the rails' times drift apart by more than 10 % in two operations running, Eq. 2 is
// applied to those two without waiting for the mean of ten. Rails without a share are probed, at no
// more than 3 % of the time.
//
// Contract: pure, single-threaded. Samples may come late or from before the last decision: they are
// judged by the bytes that really went on each rail.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "control/policies/eq.h"
#include "control/policy.h"

namespace nezha::control {

class TableRow {
 public:
  static constexpr uint32_t kTimerOps = 10;   // the paper's Timer: mean of ten operations
  static constexpr uint32_t kSingleOps = 3;   // to time a rail alone

  enum class State : uint8_t { singles, all, single };

  // What is saved, loaded and shown.
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

  // `surprised`: measured times have just contradicted what was known, so predictions do not count
  // and every rail is timed.
  TableRow(const OpClass& op, std::span<const RailSnapshot> rails, bool surprised);
  explicit TableRow(const Learned& learned);

  Shares shares() const;
  // True when a cold row must be decided anew: a rail's measured rate is twice or half of what it
  // was then, and an idle rail has no other way to say so soon.
  bool questioned_by(std::span<const RailSnapshot> rails) const;
  void learn(const OpSample& sample);
  // The rails' own times changed so much that the start must be decided again.
  bool outdated() const { return outdated_; }
  const Learned& learned() const { return learned_; }

  uint64_t last_used = 0;  // for the table, to find the row it can best do without

 private:
  struct Timer {  // sums over operations
    uint32_t operations = 0;
    double total_s = 0;
    std::array<double, kRailsMax> rail_s{};
    std::array<double, kRailsMax> bytes{};
    std::array<uint32_t, kRailsMax> seen{};
    void add(const OpSample& sample);
    double rail_mean_s(size_t rail) const { return seen[rail] ? rail_s[rail] / seen[rail] : 0; }
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
  int idle_rail_to_probe() const;
  uint64_t probe_interval(int rail) const;
  int candidate() const;
  void try_all();
  void learn_single(int rail, double total_s);
  void learn_all(const OpSample& sample);
  void learn_probe(int rail, const OpSample& sample);
  bool drifts(const Times& times);
  void finish_timer();
  void search(const Times& times, double slowest_s);
  void settle(const Times& times);
  void start_search();
  void apply_eq2(const Timer& timer);
  void drop_useless_rails(const Timer& timer, const Times& times);
  uint32_t scale_shares();
  void rescale();
  void decide(bool hot_now);
  Times times_of(const Timer& timer) const;

  Learned learned_;
  bool outdated_ = false;
  bool try_all_ = false;    // cold by prediction, but near enough to look
  bool surprised_ = false;
  uint32_t candidates_ = 0;  // bit set of rails to time alone
  std::array<uint8_t, kRailsMax> order_{};  // rails by predicted time
  std::array<uint32_t, kRailsMax> single_ops_{};
  std::array<double, kRailsMax> reference_s_{};  // single_s at the decision
  std::array<double, kRailsMax> probe_s_{};
  std::array<double, kRailsMax> predicted_s_{};  // alone, when the row was made
  RailCosts costs_{};       // predicted when the row was made; 0 in a loaded row

  Timer timer_;             // of the window of ten
  Timer previous_;          // the operation before this one
  int drift_key_ = -1;      // which rail drifted in the operation before, and to which side
  uint32_t quick_updates_ = 0;
  std::array<double, kRailsMax> balance_{};  // expected rail time / slowest rail time
  double last_slowest_s_ = 0;
  bool stepping_ = false;
  std::array<double, kRailsMax> share_before_step_{};
  Times times_before_step_;
  struct Point {
    double bytes = 0;
    double seconds = 0;
  };
  std::array<Point, kRailsMax> point_{};  // before the last Eq. 2
};

}  // namespace nezha::control
