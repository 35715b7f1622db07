// ShareTuner: on which rails operations of up to 2 MiB go, and in what ratio, by the times of whole
// operations.
//
// A RailMonitor knows the rate of a rail that always has something to send. In an operation of some
// hundred KB ranks wait for each other most of the time, and times of single transfers differ
// between ranks: acknowledgements wait behind the peer's own data. Ranks that divide an operation
// in different ways make all of them wait. So one rank, the first of the communicator, decides for
// all, and with each frame of an operation it says how the next one like it is divided
// (wire/frame.h). Every rank has heard that before the operation is over, because its result
// depends on the first rank's data.
//
// The ways are: one rail alone; all rails in the ratio of their times alone, rounded to simple
// numbers; and the division that the policy makes without a tuner. The first operations of a size
// try one way after the other (the cold start of arXiv 2405.17870, whose table of data lengths this
// is for middle sizes), and a way whose trial seems disturbed once more; then the fastest is taken.
// The others are tried again later, slow ones more rarely, and all of them when the one that was
// taken takes longer than it did. Operations that take long are left to the policy, because
// monitors learn enough from them.
//
// Unless a trial runs, the first rank is told the time of several short operations at once and
// announces nothing new: the agreed division lasts (Shares::lasts). The shortest operations go on
// one rail. The rail with the best rate is left only for a way that is faster by more than the
// times of short operations vary.
//
// Contract: pure; owned by one policy. Sizes are told apart by powers of two. Times of operations that
// did not run alone are ignored. Only speed depends on what is decided. No allocation after the
// beginning.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rails/policy.h"

namespace nezha::rails {

class ShareTuner {
 public:
  static constexpr uint64_t kBytesMax = (2u << 20) - 1;  // longer ones tell monitors enough
  static constexpr uint32_t kRailsTried = 5;  // with more nothing is tried: a way has to fit 16 bits
  static constexpr uint32_t kTrial = 4;       // operations, of which the first does not count
  static constexpr uint32_t kAtOnce = 8;      // short operations that are timed together
  static constexpr uint64_t kOneRailBytes = 1024;    // below, to use several rails gains nothing

  ShareTuner();

  // Divides an operation that begins among the rails that are up; `without`: the policy's shares.
  // `agreed`, `announced` and `lasts` of the result are set.
  Shares next(const OpClass& op, std::span<const RailSnapshot> rails, const Shares& without);
  // The agreed division for the rest of a running operation; `without`: the policy's shares.
  static Shares agreed_shares(uint16_t agreed, std::span<const RailSnapshot> rails,
                              const Shares& without);
  // Whether `agreed` names a division; if not, the division is the policy's.
  static bool decides(uint16_t agreed);
  void learn(const OpSample& sample);
  // The times that are known, as text for a person; empty where there are none.
  std::string why(const OpClass& op) const;

 private:
  static constexpr size_t kTogether = kRailsTried;   // the ways: single rails, all in a ratio,
  static constexpr size_t kWithout = kTogether + 1;  // and the policy's division
  static constexpr size_t kNone = kWithout + 1;
  static constexpr size_t kSizes = std::bit_width(kBytesMax) + 1;  // of 0 bytes, 1, 2 to 3, ...
  static constexpr size_t kAgain = kTogether + 1;    // the stage that tries a doubtful way again
  static constexpr uint32_t kSamples = 16;
  static constexpr uint64_t kSooner = 32;

  struct Way {
    bool is_short = false;
    std::array<float, kSamples> samples{};  // seconds per byte; below kOneRailBytes, seconds
    uint32_t count = 0;
    uint32_t trials = 0;
    uint32_t arrived = 0;  // operations since it was counted anew
    uint32_t uncounted = 0;  // the first of these, which do not count
    bool told = false;     // a sample was kept since then
    uint32_t doubts = 0;   // short operations: how often it was left for another way
    double sum = 0;        // of the short operations that make up the next sample
    uint32_t summed = 0;

    uint32_t kept() const { return is_short ? kSamples / 4 : kSamples; }
    uint32_t at_once() const { return is_short ? kAtOnce : 1; }
    void count_anew(uint32_t uncounted_) {
      arrived = summed = 0, sum = 0, told = false, uncounted = uncounted_;
    }
    void add(double cost, uint32_t operations);
    void keep(double cost, bool is_first);
    double latest() const;  // by what was added since its trial began; 0: too little to tell
    double usual() const;   // 0: not known
    double least() const;   // the way must be known
  };
  struct Row {
    bool is_short = false;    // below kShortBytes
    bool on_one_rail = false; // below kOneRailBytes
    uint16_t agreed = 0;      // for the next operation
    // The fields from here on are used on the rank that leads only.
    uint32_t up_mask = 0;
    size_t fastest = 0;       // rail, by rate
    uint64_t calls = 0;
    uint64_t turns = 0;       // turns so far in which a way is tried again
    uint64_t turn_at = kSooner;  // calls until the next one
    size_t stage = 0;         // of the first trials: the way that is tried next
    size_t taken = kNone;
    size_t tried = kNone;
    uint32_t tries_left = 0;
    int hopeless = 0;         // operations of the trial that took far longer than another way does
    bool is_long = false;     // the latest operation took long
    double promised = 0;      // of the way that is taken, by its trial; units as in samples
    std::array<Way, kNone> ways;

    void begin_anew(uint32_t up);
    double unit(uint64_t bytes) const { return on_one_rail ? 1 : static_cast<double>(bytes); }
    // The way that is taken was used long enough to have all the samples that are kept.
    bool is_watched() const {
      return taken != kNone && ways[taken].arrived > kTrial + ways[taken].kept() * ways[taken].at_once();
    }
    bool is_settled() const {
      return tried == kNone && stage > kAgain && (taken == kNone || is_watched());
    }
  };

  // Nothing for operations that the tuner does not divide.
  static std::optional<size_t> index_of(const OpClass& op);
  static bool has_way(const Row& row, size_t way);
  static size_t decide(Row& row);
  static void begin_trial(Row& row, size_t way);
  static bool tries_longer(const Row& row, size_t way);
  static size_t next_to_try(Row& row);
  static size_t doubtful(const Row& row);
  static size_t way_in_turn(Row& row);
  static size_t best_of(const Row& row);
  static void take_best(Row& row);
  static void watch(Row& row);
  static uint32_t uncounted(const Row& row, size_t way);
  static bool is_hopeless(const Row& row, double cost);
  static uint16_t code_of(const Row& row, size_t way);
  static size_t way_of(uint16_t code);

  std::vector<Row> rows_;  // by collective and size
};

}  // namespace nezha::rails
