// Shares with some rails left out, for an operation whose other half uses their network device already.
//
// Contract: pure. `avoided`: rails as a bit set; as long as no other rail is up, they are used all the
// same.
#pragma once

#include <span>

#include "rails/policy.h"

namespace nezha::rails {

Shares avoiding(uint32_t avoided, Shares shares, std::span<const RailSnapshot> rails);

}  // namespace nezha::rails
