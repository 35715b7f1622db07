// TransferTimes: how long short transfers to one peer take on each rail, and so which rail the next
// one takes.
//
// Rates say little about short transfers: they are over before a monitor has seen enough, and where
// device speeds are unknown, or say nothing about the path, all rails look alike. So some transfers
// are timed, from the moment of posting until the peer's library says that they have landed: a few
// on each rail in turn when a size is new, later one in time_every() on the rail in use, and on the
// others at most one in a hundred: fewer on a slow one, so that trials take at most 1 % of the time,
// too.
//
// A rail is judged by the shortest of its latest times: whatever else delays a transfer only adds to
// it. Below kShortest a rail is left only for one whose median time, taken in turns with its own,
// is shorter by a quarter: the transfer with the shortest time may have passed through a full token
// bucket. The first times of a trial do not count where there are others: a token bucket that is
// full after a pause makes a slow rail look like a fast one. The rail in use is timed while no
// other short transfer is in the way (port_clock.h).
//
// Contract: pure; owned by whoever owns the peer's connections. Sizes are told apart by powers of
// two. All memory is taken at the beginning.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "rails/policy.h"

namespace nezha::rails {

class TransferTimes {
 public:
  // Rates are learned from longer transfers.
  static constexpr uint32_t kBytesMax = kUndividedBytesMax;
  static constexpr uint32_t kShortest = 1024;  // a power of two; below, the wire takes little of the time
  // One transfer in so many is timed. It needs an acknowledgement of its own, which delays the
  // shortest transfers noticeably.
  static constexpr uint64_t time_every(uint32_t bytes) { return bytes < kShortest ? 512 : 16; }

  struct Choice {
    int rail = -1;       // -1: none may carry it
    bool timed = false;  // its time is to be passed to learn()
  };

  explicit TransferTimes(uint32_t rails);

  // The rail for the next transfer of `bytes`. `wait_s`: by rail, for how long other work would
  // hold the transfer up there; negative: that rail may not carry it. `free`: rails (bit set) on
  // which it would wait for no other short transfer; on another rail its timing is put off, a
  // limited number of times.
  Choice next(uint32_t bytes, std::span<const double> wait_s, uint32_t free);
  // The rail that next() would take if nothing else waited there and it may carry the transfer: most of
  // the shortest transfers are neither timed nor tried on another rail. -1: ask next(). A caller
  // that uses this rail calls passed().
  int settled(uint32_t bytes) const;
  void passed(uint32_t bytes) { ++classes_[class_of(bytes)].transfers; }
  void learn(int rail, uint32_t bytes, double seconds);
  // Seconds that a transfer is expected to take on that rail; 0: not known.
  double expected_s(int rail, uint32_t bytes) const;

 private:
  static constexpr size_t kClasses = std::bit_width(kBytesMax) + 1;  // of 0 bytes, 1, 2 to 3, ...
  static constexpr uint32_t kTrial = 4;   // transfers
  static constexpr uint32_t kUncounted = 2;  // the first of these, which do not count
  static constexpr uint32_t kSamples = 8;

  struct Rail {
    std::array<float, kSamples> samples{};
    double shortest_s = 0;  // of the samples
    double middle_s = 0;
    uint32_t count = 0;
    uint32_t arrived = 0;   // samples since the trial began
    uint32_t trials = 0;
    uint32_t doubts = 0;    // how often it was slower in use than a trial had promised
    uint64_t tried_at = 0;  // which transfer

    bool is_known() const { return count > 0; }
  };
  struct Class {
    bool shortest = false;  // below kShortest
    uint64_t transfers = 0;
    int taken = -1;
    uint64_t taken_at = 0;    // which transfer
    int tried = -1;
    uint32_t tries_left = 0;
    uint32_t timings_left = 0;  // of the rail that is taken
    uint32_t put_off = 0;       // how often a timing was put off in a row
    int compared = -1;          // the rail that is tried in turns with the one that is taken
    uint64_t compare_at = 0;    // which transfer: when the times of both are there
    bool suspected = false;     // the rail that is taken became far slower
    bool met = false;           // no rail waited for its first trials when that was last looked at
    std::vector<Rail> rails;

    double seconds(const Rail& rail) const;  // by which rails are compared; the rail must be known
    double worth_changing() const;
    uint32_t samples() const;  // how many of the latest count
    uint32_t enough() const;   // samples that are enough to know a rail
    uint32_t trial(const Rail& rail) const;  // its length in transfers
    bool is_spread(const Rail& rail) const;  // its trial is among transfers on the rail that is taken
  };

  static size_t class_of(uint32_t bytes);
  static bool is_hopeless(const Class& at, const Rail& rail);
  static void begin_trial(Class& at, Rail& tried);
  static int rail_to_try(Class& at, std::span<const double> wait_s);
  static bool must_wait(Class& at, int rail, uint32_t free);
  static uint64_t transfers_apart(const Class& at, const Rail& rail);
  static int better_of_trial(Class& at);
  static int best_rail(const Class& at, std::span<const double> wait_s);
  static void take_best(Class& at, std::span<const double> wait_s);

  std::vector<Class> classes_;
};

}  // namespace nezha::rails
