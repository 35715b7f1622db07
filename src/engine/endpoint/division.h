// Division: how the transfers of one operation are divided among the rails, and when that is decided
// again.
//
// Contract: a plain record; progress lock held. RailDivider owns it and fills it in. An operation or a
// message holds it while it lasts, and its transfers name it by number.
#pragma once

#include <array>
#include <cstdint>

#include "base/clock.h"
#include "rails/policy.h"

namespace nezha::engine {

struct Division {
  uint64_t number = 0;
  rails::Policy* policy = nullptr;  // of the communicator; null: nothing has begun
  rails::OpClass op;
  rails::Shares shares;
  uint64_t rails_epoch = 0;         // RailDivider's epoch at the decision
  Nanoseconds begun_at = 0;
  Nanoseconds decided_at = 0;
  // The use of one rail: so far (`use`), and until the latest decision (`use_decided`).
  struct Use {
    uint64_t bytes = 0;         // sent
    uint64_t timed_bytes = 0;   // of timed transfers that were acknowledged
    Nanoseconds timed_for = 0;  // how long the rail was busy with these
  };
  std::array<Use, rails::kRailsMax> use{};
  std::array<Use, rails::kRailsMax> use_decided{};
  uint16_t announced = 0;           // by the leading rank, for the next operation like this one
  bool lasted = false;              // the shares are those of an earlier operation like this one
  bool alone = false;               // no other operation of its group has run beside it
  bool whole = true;                // the same rails were up from the beginning on
};

}  // namespace nezha::engine
