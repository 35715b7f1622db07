// LinkLoads: what waits on each connection to one peer, and what its draining says about its rate.
//
// Contract: owned by RailChoice, progress lock held. Backlogs are measured once per dispatch, then the
// transfers that are posted are added, because asking the kernel costs a system call.
#pragma once

#include <list>

#include "base/clock.h"
#include "engine/endpoint/link.h"

namespace nezha::engine {

class LinkLoads {
 public:
  explicit LinkLoads(std::list<Link>& links) : links_(links) {}

  // A dispatch begins: what was measured is old.
  void forget() { measured_ = false; }
  // Every backlog was measured in this dispatch.
  void set_measured() { measured_ = true; }
  // Bytes that were posted on the connection and that the peer has not got yet.
  uint64_t backlog(Link& link, Nanoseconds now);
  // Teaches the monitors of the connections that have something to send. To be called every
  // kPieceShortest while the loop turns: the bytes that a rail drains after the last
  // transfer was posted say as much about it as the others.
  void learn_rates(Nanoseconds now);

 private:
  uint64_t measure(Link& link, Nanoseconds now);
  Nanoseconds lateness() const;

  std::list<Link>& links_;
  bool measured_ = false;
};

}  // namespace nezha::engine
