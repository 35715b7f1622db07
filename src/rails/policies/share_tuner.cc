#include "rails/policies/share_tuner.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <ranges>
#include <utility>

#include "rails/policies/eq.h"
#include "rails/policies/policies.h"

namespace nezha::rails {
namespace {

// A way is coded in 16 bits, three for each rail: 0 if the rail carries nothing, else 1 + an index
// of kSlower, which says how many times as slow as the fastest rail it is taken to be. A rail that
// is slower than the last of these is of no help: one transfer takes too long there.
constexpr std::array kSlower = {1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0};
constexpr int kBits = 3;
constexpr uint16_t kField = (1 << kBits) - 1;
constexpr uint16_t kCodeWithout = 1 << (kBits * ShareTuner::kRailsTried);

uint16_t field(uint16_t code, size_t rail) {
  return static_cast<uint16_t>(code >> (kBits * rail)) & kField;
}

// The first of the rails whose rates are like the best one. `rails` is not empty.
size_t fastest_of(std::span<const RailSnapshot> rails) {
  const auto rate = [](const RailSnapshot& rail) { return rail.up ? rail.rate_bytes_per_s : 0; };
  const double best = std::ranges::max(rails | std::views::transform(rate));
  const auto is_alike = [&](const RailSnapshot& rail) { return rate(rail) >= kAlike * best; };
  return static_cast<size_t>(std::ranges::find_if(rails, is_alike) - rails.begin());
}

// The three bits of a rail that is so many times as slow as the fastest, rounded. 0: far slower.
uint16_t field_of(double slower) {
  if (slower > kSlower.back() * kRoundedToNext) return 0;
  size_t nearest = 0;
  for (size_t k = 1; k < kSlower.size(); ++k) {
    if (std::abs(slower - kSlower[k]) < std::abs(slower - kSlower[nearest])) nearest = k;
  }
  return static_cast<uint16_t>(nearest + 1);
}

}  // namespace

ShareTuner::Row::Row(size_t size)
    : is_short(size < std::bit_width(kShortBytes)), on_one_rail(size < std::bit_width(kOneRailBytes)),
      tuner(kWays, {.varied = is_short, .worth_leaving = is_short ? kWorthLeaving : 1,
                    .unkept = is_short ? kShortUnkept : kUnkept}) {}

ShareTuner::ShareTuner() {
  rows_.reserve(kDividedAlike.size() * kSizes);
  for (size_t row = 0; row < kDividedAlike.size() * kSizes; ++row) rows_.emplace_back(row % kSizes);
}

std::optional<size_t> ShareTuner::index_of(const OpClass& op) {
  const auto* const found = std::find(kDividedAlike.begin(), kDividedAlike.end(), op.collective);
  if (found == kDividedAlike.end() || op.avoid != 0) return {};
  if (op.bytes > kTunedBytesMax) return {};
  return static_cast<size_t>(found - kDividedAlike.begin()) * kSizes +
         static_cast<size_t>(std::bit_width(op.bytes));
}

Shares ShareTuner::next(const OpClass& op, std::span<const RailSnapshot> rails,
                        const Shares& without) {
  const std::optional<size_t> index = index_of(op);
  if (!index) return without;
  Row& row = rows_[*index];
  Shares shares = agreed_shares(row.agreed, rails, without);
  shares.lasts = row.is_short;
  if (!op.leads) return shares;
  const uint32_t up = up_mask_of(rails);
  if (row.up_mask != up) row.tuner.begin_anew();
  row.up_mask = up;
  const bool may_try = std::popcount(up) > 1 && (up >> kRailsTried) == 0 && !row.is_long;
  const size_t way = may_try ? row.tuner.next(row.usable(), fastest_of(rails)) : Tuner::kNone;
  shares.announced = code_of(row, way);
  shares.lasts &= shares.announced == row.agreed && (!may_try || row.tuner.is_settled());
  return shares;
}

// All rails together are a way once two of them were tried alone.
uint32_t ShareTuner::Row::usable() const {
  uint32_t known = 0;
  for (size_t rail = 0; rail < kTogether; ++rail) known += tuner.is_known(rail) ? 1 : 0;
  return up_mask | (known > 1 && !on_one_rail ? 1u << kTogether : 0);
}

bool ShareTuner::decides(uint16_t agreed) { return agreed != 0 && agreed < kCodeWithout; }

Shares ShareTuner::agreed_shares(uint16_t agreed, std::span<const RailSnapshot> rails,
                                 const Shares& without) {
  Shares shares = without;
  if (decides(agreed)) {
    shares = {};
    for (size_t rail = 0; rail < kRailsTried; ++rail) {
      const uint16_t slower = field(agreed, rail);
      if (slower != 0) shares.weight[rail] = 1 / kSlower[slower - 1u];
    }
    shares = normalized(shares, rails);
  }
  shares.agreed = agreed;
  return shares;
}

void ShareTuner::learn(const OpSample& sample) {
  const std::optional<size_t> index = index_of(sample.op);
  if (!index) return;
  Row& row = rows_[*index];
  if (sample.announced != 0) row.agreed = sample.announced;
  if (!sample.op.leads) return;
  row.tuner.passed(sample.operations);
  if (!sample.alone || !sample.whole) return;
  if (!(sample.total_s > 0) || !std::isfinite(sample.total_s)) return;
  row.is_long = sample.total_s > kLongOperationS;
  const size_t way = way_of(sample.agreed);
  if ((row.usable() >> way & 1) == 0) return;
  row.tuner.learn(way, sample.total_s / row.unit(sample.op.bytes), sample.operations);
}

uint16_t ShareTuner::code_of(const Row& row, size_t way) {
  if (way == Tuner::kNone) return kCodeWithout;
  if (way < kTogether) return static_cast<uint16_t>(1 << (kBits * way));
  double quickest_s = 0;
  for (size_t rail = 0; rail < kTogether; ++rail) {
    const double seconds = row.tuner.usual(rail);
    if (seconds > 0 && (quickest_s == 0 || seconds < quickest_s)) quickest_s = seconds;
  }
  uint16_t code = 0;
  for (size_t rail = 0; rail < kTogether; ++rail) {
    const double seconds = row.tuner.usual(rail);
    if (seconds == 0) continue;
    code = static_cast<uint16_t>(code | field_of(seconds / quickest_s) << (kBits * rail));
  }
  return code;
}

size_t ShareTuner::way_of(uint16_t code) {
  if (!decides(code)) return Tuner::kNone;
  size_t carries = 0;
  size_t last = 0;
  for (size_t rail = 0; rail < kRailsTried; ++rail) {
    if (field(code, rail) == 0) continue;
    ++carries;
    last = rail;
  }
  return carries == 1 ? last : kTogether;
}

std::string ShareTuner::why(const OpClass& op) const {
  const std::optional<size_t> index = index_of(op);
  if (!index) return {};
  const Row& row = rows_[*index];
  std::string text;
  for (size_t way = 0; way < kWays; ++way) {
    const double seconds = row.tuner.usual(way) * row.unit(op.bytes);
    if (seconds == 0) continue;
    std::array<char, 32> time{};
    std::snprintf(time.data(), time.size(), " %.1f us", 1e6 * seconds);
    const std::string name =
        way < kTogether ? "rail " + std::to_string(way) + " alone" : "all in a ratio";
    text += (text.empty() ? "" : ", ") + name + time.data();
  }
  return text;
}

}  // namespace nezha::rails
