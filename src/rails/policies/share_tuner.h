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
// The ways (rails/tuner.h) are: one rail alone; and all rails in the ratio of their times alone, rounded
// to simple numbers. To try them is the cold start of arXiv 2405.17870, whose table of data lengths this
// is for middle sizes. Operations that take long are left to the policy, because monitors learn enough
// from them.
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

#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rails/constants.h"
#include "rails/policy.h"
#include "rails/tuner.h"

namespace nezha::rails {

class ShareTuner {
 public:
  static constexpr uint32_t kRailsTried = 5;  // with more nothing is tried: a way has to fit 16 bits

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
  static constexpr size_t kTogether = kRailsTried;  // the way that uses all rails, after the single ones
  static constexpr size_t kWays = kTogether + 1;
  static constexpr size_t kSizes = std::bit_width(kTunedBytesMax) + 1;  // of 0 bytes, 1, 2 to 3, ...

  struct Row {
    explicit Row(size_t size);
    double unit(uint64_t bytes) const { return on_one_rail ? 1 : static_cast<double>(bytes); }
    uint32_t usable() const;

    bool is_short;       // below kShortBytes
    bool on_one_rail;    // below kOneRailBytes
    uint16_t agreed = 0; // for the next operation
    // The fields from here on are used on the rank that leads only.
    uint32_t up_mask = 0;
    bool is_long = false;  // the latest operation took long
    Tuner tuner;         // costs are seconds per byte; on one rail, seconds
  };

  // Nothing for operations that the tuner does not divide.
  static std::optional<size_t> index_of(const OpClass& op);
  static uint16_t code_of(const Row& row, size_t way);
  static size_t way_of(uint16_t code);

  std::vector<Row> rows_;  // by collective and size
};

}  // namespace nezha::rails
