// Recovery: what each single fault may cost, in virtual time: how long operations may stand still, who
// may be suspected, when a rail is back, and when a rank that is gone is named.
//
// Contract: each check builds a world of its own from the seed and answers "" or what is wrong.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace nezha::simulation {

struct RecoveryCheck {
  const char* name;
  std::string (*run)(uint64_t seed);
};
std::span<const RecoveryCheck> recovery_checks();
// Half a day without a rail: long, so by itself.
std::string check_long_outage(uint64_t seed);

}  // namespace nezha::simulation
