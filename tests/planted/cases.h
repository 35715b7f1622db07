// A case of the simulation by its name, so that the one which caught a bug can be asked for again.
//
// Contract: plain values; one thread. The same case is the same history.
//   "scenario 12", "late_write 3", "hostile 7", "trust 2", "memory 5", "phases 4", "hierarchy 9",
//   "recovery a_rail_returns 3", "nemesis copies_meet 4",
//   "points ring.collecting.sent ack.landed skip 1 blow late_copy seed 99"
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "simulation/protocol_points.h"

namespace nezha::simulation {

class Cases {
 public:
  // The `number`th of the blind search: the suites take turns.
  static std::string name(uint64_t number);
  // "" or what is wrong; a name that is none is wrong, too.
  std::string run(const std::string& name);

 private:
  std::string run_points(const std::string& name);
  std::optional<PointRunner> points_;  // made when it is needed first
};

}  // namespace nezha::simulation
