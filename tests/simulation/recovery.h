// Recovery: what each single fault may cost, in virtual time: how long operations may stand still, who
// may be suspected, when a rail is back, and when a rank that is gone is named.
//
// Contract: each check builds a world of its own from the seed and answers "" or what is wrong.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/clock.h"

namespace nezha::simulation {

struct RecoveryCheck {
  const char* name;
  std::string (*run)(uint64_t seed);
};
std::span<const RecoveryCheck> recovery_checks();
// A rail of two is out for so long, and then back: the other one carries everything meanwhile, and a
// second later both carry what they did before.
std::string check_outage(uint64_t seed, Nanoseconds outage);

}  // namespace nezha::simulation
