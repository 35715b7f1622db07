#include "queries/two_rails.h"

#include <limits>

namespace nezha::queries {

double cold_hot_threshold(rails::RailCost quick, rails::RailCost other, double split_cost,
                          double lost_by_quick, double lost_by_other) {
  const double other_rate = (1 - lost_by_other) / other.s_per_byte;
  const double together = (1 - lost_by_quick) / quick.s_per_byte + other_rate;
  const double gained = quick.s_per_byte * together - 1;  // of the quick rail's rate
  if (!(gained > 0)) return std::numeric_limits<double>::infinity();
  return ((other.startup_s - quick.startup_s) * other_rate + split_cost * together) / gained;
}

double interference_limit(double rate_lost_by_fast, double rate_lost_by_slow) {
  return (1 - rate_lost_by_slow) / rate_lost_by_fast;
}

}  // namespace nezha::queries
