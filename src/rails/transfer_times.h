// TransferTimes: how long transfers of up to kUndividedBytesMax to one peer take on each rail, and so
// which rail the next one takes. Rates are learned from longer ones.
//
// Rates say little about short transfers: they are over before a monitor has seen enough, and where
// device speeds are unknown, or say nothing about the path, all rails look alike. So some transfers
// are timed, from the moment of posting until the peer's library says that they have landed: those
// that try a rail (tuner.h), and one in kTimeEvery on the rail in use. Rails are timed while no
// other short transfer is in the way (port_clock.h), because that would add to the time.
//
// Contract: pure; owned by whoever owns the peer's connections. Sizes are told apart by powers of
// two. All memory is taken at the beginning.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "rails/policy.h"
#include "rails/tuner.h"

namespace nezha::rails {

class TransferTimes {
 public:
  struct Choice {
    int rail = -1;       // -1: none may carry it
    bool timed = false;  // its time is to be passed to learn()
  };

  explicit TransferTimes(uint32_t rails);

  // The rail for the next transfer of `bytes`. `wait_s`: by rail, for how long other work would
  // hold the transfer up there; negative: that rail may not carry it. `free`: rails (bit set) on
  // which it would wait for no other short transfer; while one is not free nothing is timed, for a
  // limited number of transfers.
  Choice next(uint32_t bytes, std::span<const double> wait_s, uint32_t free);
  // The rail that next() would take if nothing else waited there and it may carry the transfer: most of
  // the shortest transfers are neither timed nor tried on another rail. -1: ask next(). A caller
  // that uses this rail calls passed().
  int settled(uint32_t bytes) const;
  void passed(uint32_t bytes) { classes_[class_of(bytes)].tuner.passed(1); }
  void learn(int rail, uint32_t bytes, double seconds);
  // Seconds that a transfer is expected to take on that rail; 0: not known.
  double expected_s(int rail, uint32_t bytes) const;

 private:
  struct Class {
    Class(uint32_t rails, bool is_shortest);
    bool must_wait(bool is_free);
    int soonest(uint32_t usable, std::span<const double> wait_s) const;

    uint32_t timings_left = 0;  // of the rail that is taken
    uint32_t put_off = 0;       // how often a timing was put off in a row
    Tuner tuner;              // ways are rails, costs seconds
  };

  // All sizes below kShortestTransfers are one class.
  static size_t class_of(uint32_t bytes);

  uint32_t rails_;
  std::vector<Class> classes_;
};

}  // namespace nezha::rails
