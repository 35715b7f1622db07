#include "rails/policies/avoiding.h"

#include "rails/policies/policies.h"

namespace nezha::rails {

Shares avoiding(uint32_t avoided, Shares shares, std::span<const RailSnapshot> rails) {
  bool others = false;
  for (size_t rail = 0; rail < rails.size() && rail < kRailsMax; ++rail) {
    others |= rails[rail].up && (avoided >> rail & 1) == 0;
  }
  if (avoided == 0 || !others) return shares;
  double left = 0;
  for (size_t rail = 0; rail < kRailsMax; ++rail) {
    if ((avoided >> rail & 1) != 0) shares.weight[rail] = 0;
    left += shares.weight[rail];
  }
  // All weight was on avoided rails: the other rails that are up share evenly.
  for (size_t rail = 0; rail < rails.size() && rail < kRailsMax && left == 0; ++rail) {
    if (rails[rail].up && (avoided >> rail & 1) == 0) shares.weight[rail] = 1;
  }
  shares.left_out |= avoided;
  if (shares.probe >= 0 && (avoided >> shares.probe & 1) != 0) shares.probe = -1;
  return normalized(shares, rails);
}

}  // namespace nezha::rails
