// RailMonitor: how fast one rail drains towards one peer, learned from what it drained.
//
// Contract: owned by the loop that owns the rail; no clock of its own. Only time in which the rail
// always had something to send says anything about its rate, and only in pieces long and large
// enough that a token bucket's burst or one late acknowledgement does not decide. Follows a change
// within about 50 ms of busy time in both directions. A rail that is backlogged and drains nothing
// is slow, not unknown.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "rails/constants.h"

namespace nezha::rails {

class RailMonitor {
 public:
  // `nominal_bytes_per_s` holds until something was measured; 0 or less: 1 Gbit/s.
  explicit RailMonitor(double nominal_bytes_per_s);

  // To be called when bytes drained and when the rail becomes idle or busy. `drained_total` only
  // grows. `backlogged`: the rail had something to send all the time since the previous call.
  // Calls whose time or count goes backwards start afresh. True when it learned something.
  bool sample(Nanoseconds now, uint64_t drained_total, bool backlogged);

  // Takes a rate that single transfers showed. The highest of them counts until one is measured.
  void suppose(double bytes_per_s);

  double rate_bytes_per_s() const { return rate_; }
  bool measured() const { return measured_; }
  // False: the rate is still the nominal one.
  bool known() const { return measured_ || supposed_; }

 private:
  void fold(Nanoseconds duration, uint64_t bytes);
  bool raise(Nanoseconds now, uint64_t drained_total);

  double rate_;
  // The estimate moves at least half of the way to the limited rate of a first piece. Each further first
  // piece in a row that exceeds the limit doubles the factor. So busy periods that are all shorter than
  // one piece still move the estimate, however wrong it is.
  double raise_ = kFirstPieceRaise;
  bool measured_ = false;
  bool supposed_ = false;
  bool started_ = false;       // piece_start_ and piece_bytes_ are set
  bool first_piece_ = true;    // of the present busy period
  Nanoseconds piece_start_ = 0;
  uint64_t piece_bytes_ = 0;   // drained_total at piece_start_
  Nanoseconds last_now_ = 0;
  uint64_t last_total_ = 0;
};

}  // namespace nezha::rails
