// Redial: when a lost connection is tried again, and how long one attempt may take.
//
// Contract: pure; owned by the loop. Attempts never end while the job lives, and their distance stays
// about a third of a second, so that a rail is used within a second after its link is up again,
// however long it was gone; an attempt costs one packet. Connections that keep coming back in vain
// are different: each costs the operations a stall and carries next to nothing, so the next attempt
// waits longer, up to ten seconds. That penalty halves with every minute that a connection lives.
#pragma once

#include "base/clock.h"
#include "rails/constants.h"

namespace nezha::rails {

class Redial {
 public:
  // `in_vain`: the connection ended after a long silence, or fell silent before it carried
  // anything. (A short silence may end a connection that works: a frame that is being written
  // cannot be taken back without ending the connection.) `spread` in [0, 1) keeps ranks that lost
  // the same switch from dialling at once.
  void lost(Nanoseconds now, bool in_vain, double spread);
  void joined(Nanoseconds now);
  // The device has its carrier again.
  void hurry(Nanoseconds now);
  void begin(Nanoseconds now);
  // `answered`: the connection was accepted, and the test of the rail did not end in time.
  void failed(Nanoseconds now, bool answered);

  bool is_due(Nanoseconds now) const { return !under_way_ && now >= next_at_; }
  Nanoseconds next_at() const { return under_way_ ? kNever : next_at_; }
  Nanoseconds patience() const { return patience_; }

 private:
  bool under_way_ = false;
  Nanoseconds next_at_ = 0;
  Nanoseconds patience_ = kDialPatience;
  Nanoseconds joined_at_ = 0;
  double flaps_ = 0;
  double spread_ = 0;
};

}  // namespace nezha::rails
