// Division: how the transfers of one operation are divided among the rails, and when that is decided
// again.
//
// Contract: a plain record of whoever has the operation (an Execution, a message); progress lock held.
// RailDivider fills it in.
#pragma once

#include <array>
#include <cstdint>

#include "base/clock.h"
#include "control/policy.h"

namespace nezha::engine {

struct Division {
  control::OpClass op;
  control::Shares shares;
  uint64_t rails_epoch = 0;         // RailDivider's, as of the decision
  Nanoseconds begun_at = 0;
  Nanoseconds decided_at = 0;
  // By rail, so far and as of the decision.
  struct Use {
    uint64_t bytes = 0;         // sent
    uint64_t timed_bytes = 0;   // acknowledged, of timed transfers
    Nanoseconds timed_for = 0;  // for how long the rail was busy with these
  };
  std::array<Use, control::kRailsMax> use{};
  std::array<Use, control::kRailsMax> use_decided{};
  uint16_t announced = 0;           // for the next operation like it, by the rank that leads
  bool lasted = false;              // decided by one before it
  bool alone = false;               // no other operation of its group has run beside it
  bool whole = true;                // the same rails were up from the beginning on
};

}  // namespace nezha::engine
