// AggregationShares: which way an operation goes: over the host rails, through the aggregation node, or,
// cut in two, both; learned from times, and the same on every rank.
//
// Contract
//   Pure     no clock, no I/O. One per communicator; the loop's progress lock held.
//   Agreed   `way_of` depends on the calls before it and on what `apply` was given. When all ranks make
//            the same calls in the same order they decide alike; `measured` may differ between them,
//            because it counts only through the reports that all of them exchange.
//
// Operations are told apart by size, in powers of two. For each size the three ways are tried, the
// fastest is taken, and the others are tried again at growing intervals. A cut operation is over
// when its later part is, so the cut moves until both parts take the same time.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "rails/constants.h"

namespace nezha::rails {

enum class Way : uint8_t { hosts, node, both };

class AggregationShares {
 public:
  static constexpr int kClasses = 26;  // of 8 bytes and less to 256 MiB and more

  // The times that one rank measured since its last report: medians in seconds; 0: not measured.
  struct Times {
    float hosts = 0;       // of operations that took only this way
    float node = 0;
    float both_hosts = 0;  // of the two parts of operations that were cut
    float both_node = 0;
  };
  struct Report {
    std::array<Times, kClasses> times{};
  };

  // `fixed`: 0 to 1, the node's part of every operation; negative: the parts are learned.
  // `short_bytes`: operations up to this long are not cut.
  AggregationShares(double fixed, uint64_t short_bytes) : fixed_(fixed), short_bytes_(short_bytes) {}
  // To be called where both ways use one network device: only `fixed` cuts operations then.
  void never_cut() { may_cut_ = false; }

  // The way of the next operation of this size.
  Way way_of(uint64_t bytes);
  // The node's part of an operation that is cut.
  double share_of(uint64_t bytes) const;
  double seconds_of(uint64_t bytes) const;

  // Whether the time of one more operation over host rails would still count in the next report.
  bool wants_hosts(uint64_t bytes) const { return samples_[class_of(bytes)].hosts.size() < kReportedMax; }
  // The seconds of the part over the host rails and of the node's part; 0: that way was not used.
  void measured(uint64_t bytes, Way way, double hosts_s, double node_s);
  // This rank's times since the last call.
  Report report();
  // `reports`: of all ranks, by rank. True when some size's way or cut has changed noticeably.
  bool apply(std::span<const Report> reports);

 private:
  struct Row {
    std::array<double, 3> seconds{};  // by way; 0: not measured
    double share = 0;                 // 0: the other two ways are not known yet
    Way best = Way::hosts;
    uint64_t calls = 0;
    uint64_t next_look = kFirstLook;
    uint64_t looks_apart = kFirstLook;
    uint32_t looks = 0;
  };
  struct Samples {
    std::vector<float> hosts, node, both_hosts, both_node;
  };

  static size_t class_of(uint64_t bytes);
  int ways_of(size_t index) const { return !may_cut_ || (uint64_t{8} << index) <= short_bytes_ ? 2 : 3; }
  void learn_from_shorter(size_t index);
  static double move_cut(Row& row, double hosts_s, double node_s);
  static bool choose(Row& row, int ways);

  const double fixed_;
  const uint64_t short_bytes_;
  bool may_cut_ = true;
  std::array<Row, kClasses> rows_{};
  std::array<Samples, kClasses> samples_;
};

}  // namespace nezha::rails
