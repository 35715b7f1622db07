#include "control/policies/share_tuner.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <utility>

#include "control/policies/eq.h"
#include "control/policies/policies.h"

namespace nezha::control {
namespace {

constexpr uint64_t kEvery = 256;          // operations, one of the ways is tried again
constexpr uint64_t kSooner = 32;          // and after so many, and twice as many, and so on
constexpr uint32_t kOwnTrial = 48;        // operations in which the policy learns about transfers, too
constexpr double kWorthChanging = 0.97;   // of the time
constexpr double kUnusual = 1.5;          // times as long as usual
constexpr double kNearTheBest = 1.15;     // times as long as the way that is taken
constexpr double kFarFromIt = 3;          // and so many times: one trial is enough
constexpr double kUnkept = 1.2;           // times as long as a trial had promised
constexpr double kShortUnkept = 3;        // the same of short operations
constexpr double kLongS = 15e-3;          // an operation in which monitors learn enough

// A way in 16 bits: for each rail three, 0 where it carries nothing, or else how many times as slow as
// the fastest one it is taken for. What is slower than that is of no help: one transfer takes too long.
constexpr std::array kSlower = {1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0};
constexpr double kRoundedToNext = 1.12;   // times as slow as the last of them: still that
constexpr int kBits = 3;
constexpr uint16_t kField = (1 << kBits) - 1;
constexpr uint16_t kCodeWithout = 1 << (kBits * ShareTuner::kRailsTried);

uint16_t field(uint16_t code, size_t rail) {
  return static_cast<uint16_t>(code >> (kBits * rail)) & kField;
}

// Of a rail that is so many times as slow: the nearest of the ratios. 0: far slower.
uint16_t field_of(double slower) {
  if (slower > kSlower.back() * kRoundedToNext) return 0;
  size_t nearest = 0;
  for (size_t k = 1; k < kSlower.size(); ++k) {
    if (std::abs(slower - kSlower[k]) < std::abs(slower - kSlower[nearest])) nearest = k;
  }
  return static_cast<uint16_t>(nearest + 1);
}

}  // namespace

// The `uncounted` first ones of a trial stand for the way until one counts.
void ShareTuner::Way::add(double s_per_byte, uint32_t uncounted) {
  if (++arrived <= uncounted && count > 1) return;
  const double before = usual();
  const bool other = s_per_byte > kUnusual * before || s_per_byte * kUnusual < before;
  if (arrived <= uncounted + 1 && (count == 1 || other)) count = 0;
  samples[count++ % kSamples] = static_cast<float>(s_per_byte);
  if (count == 2 * kSamples) count = kSamples;
}

// The mean of all but the slowest quarter: ranks that share a core wait in turns, so that one rank's
// times of short operations vary, but a host that was busy once says nothing.
double ShareTuner::Way::usual() const {
  const uint32_t kept = std::min(count, kSamples);
  if (kept == 0) return 0;
  std::array<float, kSamples> sorted = samples;
  const auto counted = sorted.begin() + (kept - (kept + 1) / 4);
  std::nth_element(sorted.begin(), counted - 1, sorted.begin() + kept);
  return std::accumulate(sorted.begin(), counted, 0.0) / static_cast<double>(counted - sorted.begin());
}

double ShareTuner::Way::least() const {
  const auto* const kept_end = samples.begin() + std::min(count, kSamples);
  return static_cast<double>(*std::min_element(samples.begin(), kept_end));
}

ShareTuner::ShareTuner() : rows_(kDividedAlike.size() * kSizes) {
  for (size_t row = 0; row < rows_.size(); ++row) rows_[row].is_short = row % kSizes < kShortSizes;
}

std::optional<size_t> ShareTuner::index_of(const OpClass& op) {
  const auto* const found = std::find(kDividedAlike.begin(), kDividedAlike.end(), op.collective);
  if (found == kDividedAlike.end() || op.avoid != 0) return {};
  if (op.bytes < kBytesMin || op.bytes > kBytesMax) return {};
  const auto size = static_cast<size_t>(std::bit_width(op.bytes) - std::bit_width(kBytesMin));
  return static_cast<size_t>(found - kDividedAlike.begin()) * kSizes + size;
}

Shares ShareTuner::next(const OpClass& op, std::span<const RailSnapshot> rails,
                        const Shares& without) {
  const std::optional<size_t> index = index_of(op);
  if (!index) return without;
  Row& row = rows_[*index];
  Shares shares = agreed_shares(row.agreed, rails, without);
  if (!op.leads) return shares;
  const uint32_t up = up_mask_of(rails);
  if (row.up_mask != up) {
    const bool is_short = row.is_short;
    const bool is_long = row.is_long;
    row = Row();
    row.is_short = is_short;
    row.is_long = is_long;
    row.up_mask = up;
  }
  ++row.calls;
  const bool may_try = std::popcount(up) > 1 && (up >> kRailsTried) == 0;
  shares.announced = may_try && !row.is_long ? code_of(row, decide(row)) : kCodeWithout;
  return shares;
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

bool ShareTuner::has_way(const Row& row, size_t way) {
  if (way == kWithout) return true;
  if (way < kTogether) return (row.up_mask >> way & 1) != 0;
  const auto is_known = [](const Way& rail) { return rail.count > 0; };
  return std::count_if(row.ways.begin(), row.ways.begin() + kTogether, is_known) > 1;
}

// The way of the next operation.
size_t ShareTuner::decide(Row& row) {
  if (row.tries_left == 0) {
    const size_t way = next_to_try(row);
    if (way == kNone) return row.taken;
    row.tried = way;
    Way& tried = row.ways[way];
    // The first trial ends soon: a rail may be slower by far.
    const bool is_longer = row.is_short && tried.count > 0;
    row.tries_left = way == kWithout ? kOwnTrial : is_longer ? kShortTrial : kTrial;
    tried.arrived = 0;
  }
  --row.tries_left;
  return row.tried;
}

size_t ShareTuner::next_to_try(Row& row) {
  while (row.stage <= kTogether) {
    const size_t way = row.stage++;
    if (has_way(row, way)) return way;
  }
  if (row.stage == kAgain) {
    ++row.stage;
    if (const size_t way = doubtful(row); way != kNone) return way;
  }
  if (std::exchange(row.tried, kNone) != kNone) take_best(row);
  return way_in_turn(row);
}

// A way that was once faster than the best one usually is: something else may have disturbed its trial.
size_t ShareTuner::doubtful(const Row& row) {
  const size_t best = best_of(row);
  if (best == kNone) return kNone;
  size_t doubtful = kNone;
  double least_s = row.ways[best].usual();
  for (size_t way = 0; way < kWithout; ++way) {
    const Way& other = row.ways[way];
    if (way == best || other.count == 0 || other.least() >= least_s) continue;
    doubtful = way;
    least_s = other.least();
  }
  return doubtful;
}

// Which way has its turn at this call, if any.
size_t ShareTuner::way_in_turn(const Row& row) {
  const bool soon = row.calls >= kSooner && row.calls < kEvery && std::has_single_bit(row.calls);
  if (!soon && row.calls % kEvery != 0) return kNone;
  const uint64_t turn = soon ? static_cast<uint64_t>(std::bit_width(row.calls)) : row.calls / kEvery;
  std::array<size_t, kNone> ways{};
  size_t count = 0;
  for (size_t way = 0; way < (soon ? kWithout : kNone); ++way) {
    if (has_way(row, way)) ways[count++] = way;
  }
  const size_t way = ways[turn % count];
  if (way == row.taken) return kNone;
  // Of a slow one fewer turns are taken.
  const double times = row.taken == kNone ? 1 : row.ways[way].usual() / row.promised;
  const int rareness = times > kNearTheBest ? std::min(std::ilogb(times) + 1, 10) : 0;
  const bool rests = soon ? rareness > 0 : turn / count % (uint64_t{1} << rareness) != 0;
  return rests ? kNone : way;
}

size_t ShareTuner::best_of(const Row& row) {
  size_t best = kNone;
  double least_s = 0;
  for (size_t way = 0; way < kNone; ++way) {
    const bool is_tried = way != kWithout || row.ways[way].count > 1;
    const double seconds = row.ways[way].usual() * (way == row.taken ? kWorthChanging : 1);
    if (!is_tried || seconds == 0 || (best != kNone && seconds >= least_s)) continue;
    best = way;
    least_s = seconds;
  }
  return best;
}

// Nothing where some rail is not known.
void ShareTuner::take_best(Row& row) {
  for (size_t rail = 0; rail < kTogether; ++rail) {
    if (!has_way(row, rail) || row.ways[rail].count > 0) continue;
    row.taken = kNone;
    return;
  }
  const size_t best = best_of(row);
  if (best == kNone || best == row.taken) return;
  row.taken = best;
  row.promised = row.ways[best].usual();
}

void ShareTuner::learn(const OpSample& sample) {
  const std::optional<size_t> index = index_of(sample.op);
  if (!index) return;
  Row& row = rows_[*index];
  if (sample.announced != 0) row.agreed = sample.announced;
  if (!sample.op.leads || !sample.alone || !sample.whole) return;
  if (!(sample.total_s > 0) || !std::isfinite(sample.total_s)) return;
  row.is_long = sample.total_s > kLongS;
  const size_t way = way_of(sample.agreed);
  if (!has_way(row, way)) return;
  const double s_per_byte = sample.total_s / static_cast<double>(sample.op.bytes);
  row.ways[way].add(s_per_byte, way == kWithout ? kOwnTrial - kTrial + 1 : 1);
  if (way == row.tried && is_hopeless(row, s_per_byte)) row.tries_left = 0;
  if (way == row.taken && row.tries_left == 0) watch(row);
}

bool ShareTuner::is_hopeless(const Row& row, double s_per_byte) {
  return std::any_of(row.ways.begin(), row.ways.end(), [&](const Way& way) {
    return way.count > 0 && s_per_byte > kFarFromIt * way.usual();
  });
}

// Rails are not what they were, or somebody else uses them, too.
void ShareTuner::watch(Row& row) {
  const Way& taken = row.ways[row.taken];
  const double unkept = row.is_short ? kShortUnkept : kUnkept;
  if (taken.arrived <= kTrial + kSamples || taken.usual() <= unkept * row.promised) return;
  row.promised = taken.usual();
  row.ways[row.taken].arrived = 0;
  row.stage = 0;
}

uint16_t ShareTuner::code_of(const Row& row, size_t way) {
  if (way >= kWithout) return kCodeWithout;
  if (way < kTogether) return static_cast<uint16_t>(1 << (kBits * way));
  double quickest_s = 0;
  for (size_t rail = 0; rail < kTogether; ++rail) {
    const double seconds = row.ways[rail].usual();
    if (seconds > 0 && (quickest_s == 0 || seconds < quickest_s)) quickest_s = seconds;
  }
  uint16_t code = 0;
  for (size_t rail = 0; rail < kTogether; ++rail) {
    const double seconds = row.ways[rail].usual();
    if (seconds == 0) continue;
    code = static_cast<uint16_t>(code | field_of(seconds / quickest_s) << (kBits * rail));
  }
  return code;
}

size_t ShareTuner::way_of(uint16_t code) {
  if (!decides(code)) return kWithout;
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
  for (size_t way = 0; way < kNone; ++way) {
    const double seconds = row.ways[way].usual() * static_cast<double>(op.bytes);
    if (seconds == 0) continue;
    std::array<char, 32> time{};
    std::snprintf(time.data(), time.size(), " %.1f us", 1e6 * seconds);
    const std::string name = way < kTogether    ? "rail " + std::to_string(way) + " alone"
                             : way == kTogether ? "all in a ratio"
                                                : "as they drain";
    text += (text.empty() ? "" : ", ") + name + time.data();
  }
  return text;
}

}  // namespace nezha::control
