// ShareTuner: on which rails operations of a middle size go, and in what ratio, by the times of whole
// operations.
//
// A RailMonitor knows the rate of a rail that always has something to send. In an operation of some
// hundred KB ranks wait for each other most of the time, and what is timed transfer by transfer differs
// between them: acknowledgements wait behind the peer's own data. Ranks that divide an operation in
// different ways make all of them wait. So one rank, the first of the communicator, decides for all, and
// with each frame of an operation it says how the next one like it is divided (wire/frame.h). Every rank
// has heard that before the operation is over, because its result depends on the first rank's data.
//
// The ways are one rail alone; all in the ratio of the times that they took alone, rounded to simple
// numbers; and as the policy divides operations without this. The first operations of a size try one way
// after the other (the cold start of arXiv 2405.17870, whose table of data lengths this is for middle
// sizes), one that seems disturbed twice; then the fastest is taken. The others are tried again later,
// slow ones more rarely, and all of them when the one that was taken takes longer than it did. Operations
// that take long are left to the policy, because monitors learn enough from them.
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

#include "control/policy.h"

namespace nezha::control {

class ShareTuner {
 public:
  // Shorter ones are mostly latency; longer ones tell monitors enough.
  static constexpr uint64_t kBytesMin = 1024;
  static constexpr uint64_t kBytesMax = (2u << 20) - 1;
  static constexpr uint32_t kRailsTried = 5;  // with more nothing is tried: a way has to fit 16 bits
  static constexpr uint32_t kTrial = 4;       // operations, of which the first does not count
  static constexpr uint64_t kShortBytes = 8 * 1024;  // below, the time is mostly the processors':
  static constexpr uint32_t kShortTrial = 16;        // what is known of a way is tried for longer

  ShareTuner();

  // Whether operations of that kind are divided here at all.
  static bool divides(const OpClass& op) { return index_of(op).has_value(); }
  // How an operation that begins is divided among the rails that are up; `without`: what the policy says.
  // `agreed` and `announced` of the result are set.
  Shares next(const OpClass& op, std::span<const RailSnapshot> rails, const Shares& without);
  // The same for the rest of one that is reviewed.
  static Shares agreed_shares(uint16_t agreed, std::span<const RailSnapshot> rails,
                              const Shares& without);
  // Whether that does not leave it to the policy.
  static bool decides(uint16_t agreed);
  void learn(const OpSample& sample);
  // The times that are known, as text for a person; empty where there are none.
  std::string why(const OpClass& op) const;

 private:
  static constexpr size_t kTogether = kRailsTried;   // the ways: single rails, all of them in a ratio,
  static constexpr size_t kWithout = kTogether + 1;  // and what the policy says
  static constexpr size_t kNone = kWithout + 1;
  static constexpr size_t kSizes = std::bit_width(kBytesMax) - std::bit_width(kBytesMin) + 1;
  static constexpr size_t kShortSizes = std::bit_width(kShortBytes) - std::bit_width(kBytesMin);
  static constexpr size_t kAgain = kTogether + 1;    // the stage in which a doubtful one is tried again
  static constexpr uint32_t kSamples = 16;

  struct Way {
    std::array<float, kSamples> samples{};  // seconds a byte
    uint32_t count = 0;
    uint32_t arrived = 0;  // since its trial began

    void add(double s_per_byte, uint32_t uncounted);
    double usual() const;  // 0: not known
    double least() const;  // of one that is known
  };
  struct Row {
    bool is_short = false;    // below kShortBytes
    uint16_t agreed = 0;      // for the next operation
    // Of the rank that leads:
    uint32_t up_mask = 0;
    uint64_t calls = 0;
    size_t stage = 0;         // of the first trials: the way that is tried next
    size_t taken = kNone;
    size_t tried = kNone;
    uint32_t tries_left = 0;
    bool is_long = false;     // the latest operation took long
    double promised = 0;      // seconds a byte of the way that is taken, by its trial
    std::array<Way, kNone> ways;
  };

  // Nothing where operations of that kind are not divided here.
  static std::optional<size_t> index_of(const OpClass& op);
  static bool has_way(const Row& row, size_t way);
  static size_t decide(Row& row);
  static size_t next_to_try(Row& row);
  static size_t doubtful(const Row& row);
  static size_t way_in_turn(const Row& row);
  static size_t best_of(const Row& row);
  static void take_best(Row& row);
  static void watch(Row& row);
  static bool is_hopeless(const Row& row, double s_per_byte);
  static uint16_t code_of(const Row& row, size_t way);
  static size_t way_of(uint16_t code);

  std::vector<Row> rows_;  // by collective and size
};

}  // namespace nezha::control
