// RailBinder: which rail takes the next transfer to one peer.
//
// Contract: pure arithmetic, no allocation, tens of nanoseconds; owned by the loop that posts. One
// binder per peer. The caller posts the transfer on the rail that `pick` returned; with kWait it
// leaves the transfer in its queue and asks again when a rail has room.
//
// Pull shares: the rail that would finish the transfer first, counting its backlog. The backlog is
// known by acknowledgements, which a kernel sends for up to 64 KiB or 0.5 ms at a time. So among
// the rails that would finish at most that much later than the first, the transfer takes the one
// that is furthest behind its share of the bytes. If none of these has room the transfer waits,
// unless another rail would finish it before the rest of the queue is sent anyway: a transfer on a
// slow rail can make the operation end late.
// Weighted shares: the rail that is furthest behind its share of the bytes. The next operation
// evens out the bytes that one operation divides unevenly.
// A transfer that is posted again, because its rail was slow or is gone, follows no share: among
// the rails that have a share it takes the one that would finish it first.
// A rail that is left out takes nothing while another one is up.
// A rail to probe takes the first transfers, until they are enough for its monitor.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "rails/policy.h"

namespace nezha::rails {

struct RailLoad {
  double rate_bytes_per_s = 0;  // 0 or less: unknown, taken as very slow
  uint64_t backlog_bytes = 0;   // posted and not yet drained
  double latency_s = 0;
  bool up = false;
  bool has_room = false;        // would take one more transfer now
};

class RailBinder {
 public:
  static constexpr int kWait = -1;

  // To be called before a transfer for which other shares hold than for the transfer before it. The
  // bytes owed to rails are kept. The rail to probe of a decision is probed once; of a decision
  // without a number, with every call.
  void begin(const Shares& shares);

  // The rail for a transfer of `bytes`; `queued_bytes` wait behind it for the same peer. Rails past
  // kRailsMax are ignored. kWait also when no rail is up. `again`: the transfer was posted before.
  int pick(std::span<const RailLoad> rails, uint64_t bytes, uint64_t queued_bytes = 0,
           bool again = false);
  // The one rail that takes whatever is posted for the first time, unless it has far too much to do;
  // kWait when there are several, or one is to be probed.
  int sole() const { return is_probing() ? kWait : sole_; }
  // The rail that the next transfer probes if it has room; kWait: none.
  int probed_rail() const { return is_probing() ? shares_.probe : kWait; }
  // Rails take transfers as they drain, not by weights.
  bool pulls() const { return shares_.pull; }
  static bool is_far_too_long(double finish_s);
  // Whether the shares give that rail anything. (They give none to a rail that was down.)
  bool may_carry(int rail) const;
  // Whether a rail that needs `slow_s` may give work to one that has no share and needs `other_s`.
  static bool is_far_too_slow(double slow_s, double other_s);

 private:
  bool is_probing() const { return probe_left_ > 0 && shares_.probe >= 0; }
  int pick_pull(std::span<const RailLoad> rails, double bytes, double queued_bytes, bool again);
  int first_to_finish(std::span<const RailLoad> rails, double bytes, double queued_bytes) const;
  int pick_weighted(std::span<const RailLoad> rails, double bytes);
  int pick_again(std::span<const RailLoad> rails, double bytes) const;
  // The sum of the weights of the rails that are up: `weight` below.
  double weight_up(std::span<const RailLoad> rails) const;
  // Among the rails that are up and for which `may(rail, its weight)` is true, the one that would
  // be owed the most bytes; kWait: there is none.
  template <class May>
  int furthest_behind(std::span<const RailLoad> rails, double bytes, double weight, May may) const;
  void charge(std::span<const RailLoad> rails, int chosen, double bytes, double weight);

  Shares shares_;
  int sole_ = kWait;
  uint64_t probed_ = 0;      // the number of the latest decision that was probed for
  uint64_t probe_left_ = 0;  // bytes that the probed rail still takes
  std::array<double, kRailsMax> owed_bytes_{};
};

}  // namespace nezha::rails
