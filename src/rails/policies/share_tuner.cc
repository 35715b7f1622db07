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

constexpr uint64_t kEvery = 256;          // operations until one of the ways is tried again; first
                                          // kSooner, then twice as many, and so on
constexpr uint32_t kOwnTrial = 48;        // operations in which the policy learns about transfers, too
constexpr double kWorthChanging = 0.97;   // of the time of the way that is taken
// For short operations the time of any way except the fastest rail alone counts this many times:
// their times vary by more from minute to minute than ways differ.
constexpr double kWorthLeaving = 1.08;
constexpr double kAlikeRates = 0.7;       // of the best rate: the same, as far as rates tell
constexpr double kUnusual = 1.5;          // times as long as usual
constexpr double kNearTheBest = 1.15;     // times as long as the way that is taken
constexpr double kFarFromIt = 3;          // times as long as another way: the trial ends
constexpr double kUnkept = 1.2;           // times as long as a trial had promised
constexpr double kShortUnkept = 1.5;      // like kUnkept, for short operations
constexpr double kShortSlower = 1.1;      // times as long as another way usually takes
constexpr uint32_t kEnoughToTell = 2;     // short operations
constexpr int kRarest = 10;               // powers of two
constexpr int kDoubts = 4;                // of these, at most, because a way was left before
constexpr double kLongS = 15e-3;          // an operation in which monitors learn enough

// A way is coded in 16 bits, three for each rail: 0 if the rail carries nothing, else 1 + an index
// of kSlower, which says how many times as slow as the fastest rail it is taken to be. A rail that
// is slower than the last of these is of no help: one transfer takes too long there.
constexpr std::array kSlower = {1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0};
constexpr double kRoundedToNext = 1.12;   // times as slow as the last ratio: still counts as that
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
  const auto is_alike = [&](const RailSnapshot& rail) { return rate(rail) >= kAlikeRates * best; };
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

// Ranks that share a core wait in turns: some short operations of a rank take several times as long
// as others, so a sample is the mean of several. In a trial of longer operations the first ones,
// which do not count (`uncounted`), stand for the way until one counts.
void ShareTuner::Way::add(double cost, uint32_t operations) {
  const bool counts = arrived >= uncounted;
  const bool is_first = arrived < uncounted + at_once();
  arrived += operations;
  if (!counts && (is_short || count > 1)) return;
  sum += cost * operations;
  summed += operations;
  if (summed < at_once()) return;
  const double mean = sum / summed;
  keep(mean, is_first);
}

// The first sample of a trial replaces those before it if it differs from them.
void ShareTuner::Way::keep(double cost, bool is_first) {
  const double before = usual();
  const bool other = cost > kUnusual * before || cost * kUnusual < before;
  if (is_first && (count == 1 || other)) count = 0;
  samples[count++ % kept()] = static_cast<float>(cost);
  told = true;
  if (count == 2 * kept()) count = kept();
  sum = 0;
  summed = 0;
}

double ShareTuner::Way::latest() const {
  if (summed >= kEnoughToTell) return sum / summed;
  return summed > 0 || !told ? 0 : static_cast<double>(samples[(count - 1) % kept()]);
}

// The mean of all samples except the slowest quarter: a host that was busy once says nothing.
double ShareTuner::Way::usual() const {
  const uint32_t known = std::min(count, kept());
  if (known == 0) return 0;
  std::array<float, kSamples> sorted = samples;
  const auto counted = sorted.begin() + (known - (known + 1) / 4);
  std::nth_element(sorted.begin(), counted - 1, sorted.begin() + known);
  return std::accumulate(sorted.begin(), counted, 0.0) / static_cast<double>(counted - sorted.begin());
}

double ShareTuner::Way::least() const {
  const auto* const known_end = samples.begin() + std::min(count, kept());
  return static_cast<double>(*std::min_element(samples.begin(), known_end));
}

ShareTuner::ShareTuner() : rows_(kDividedAlike.size() * kSizes) {
  for (size_t row = 0; row < rows_.size(); ++row) {
    rows_[row].is_short = row % kSizes < std::bit_width(kShortBytes);
    rows_[row].on_one_rail = row % kSizes < std::bit_width(kOneRailBytes);
    rows_[row].begin_anew(0);
  }
}

std::optional<size_t> ShareTuner::index_of(const OpClass& op) {
  const auto* const found = std::find(kDividedAlike.begin(), kDividedAlike.end(), op.collective);
  if (found == kDividedAlike.end() || op.avoid != 0) return {};
  if (op.bytes > kBytesMax) return {};
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
  if (row.up_mask != up) row.begin_anew(up);
  row.fastest = fastest_of(rails);
  const bool may_try = std::popcount(up) > 1 && (up >> kRailsTried) == 0 && !row.is_long;
  shares.announced = may_try ? code_of(row, decide(row)) : kCodeWithout;
  shares.lasts &= shares.announced == row.agreed && (!may_try || row.is_settled());
  return shares;
}

void ShareTuner::Row::begin_anew(uint32_t up) {
  up_mask = up;
  calls = turns = 0;
  turn_at = kSooner;
  stage = 0;
  taken = tried = kNone;
  tries_left = 0;
  ways.fill({.is_short = is_short});
  ways[kWithout].uncounted = uncounted(*this, kWithout);
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
  if (way < kTogether) return (row.up_mask >> way & 1) != 0;
  if (row.on_one_rail) return false;
  if (way == kWithout) return true;
  const auto is_known = [](const Way& rail) { return rail.count > 0; };
  return std::count_if(row.ways.begin(), row.ways.begin() + kTogether, is_known) > 1;
}

// The way of the next operation.
size_t ShareTuner::decide(Row& row) {
  if (row.tries_left == 0) {
    const size_t way = next_to_try(row);
    if (way == kNone) return row.taken;
    begin_trial(row, way);
  }
  --row.tries_left;
  return row.tried;
}

void ShareTuner::begin_trial(Row& row, size_t way) {
  row.tried = way;
  Way& tried = row.ways[way];
  row.tries_left = way == kWithout ? kOwnTrial : tries_longer(row, way) ? 1 + 2 * kAtOnce : kTrial;
  tried.count_anew(uncounted(row, way));
  ++tried.trials;
  row.hopeless = 0;
}

// Trials of short operations are longer, except while the way is unknown or seems far slower.
bool ShareTuner::tries_longer(const Row& row, size_t way) {
  return row.is_short && row.ways[way].count > 0 && !is_hopeless(row, row.ways[way].usual());
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
// For short operations the first rail is doubtful, too, unless it is far slower: a job's first
// short operations, its trial, take longer than later ones.
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
  const auto first = static_cast<size_t>(std::countr_zero(row.up_mask));
  if (doubtful != kNone || !row.is_short || first == best) return doubtful;
  return row.ways[first].usual() < kFarFromIt * row.ways[best].usual() ? first : kNone;
}

// Which way has its turn at this call, if any.
size_t ShareTuner::way_in_turn(Row& row) {
  if (row.calls < row.turn_at) return kNone;
  const bool soon = row.turn_at < kEvery;
  row.turn_at = soon ? 2 * row.turn_at : row.calls + kEvery;
  const uint64_t turn = row.turns++;
  if (soon && row.turn_at == kEvery) row.turns = 0;
  std::array<size_t, kNone> ways{};
  size_t count = 0;
  for (size_t way = 0; way < (soon ? kWithout : kNone); ++way) {
    if (has_way(row, way)) ways[count++] = way;
  }
  const size_t way = ways[turn % count];
  if (way == row.taken) return kNone;
  // A slow way takes fewer turns.
  const double own = row.taken == kNone ? 0 : std::max(row.promised, row.ways[row.taken].usual());
  const double times = own == 0 ? 1 : row.ways[way].usual() / own;
  const int slowness = times > kNearTheBest ? std::max(std::ilogb(times), 1) : 0;
  const int doubts = std::min(static_cast<int>(row.ways[way].doubts), kDoubts);
  const int rareness = std::min(slowness + doubts, kRarest);
  const int soon_rarest = row.is_short ? 1 : 0;
  const uint64_t lap = turn / count + 1;
  const bool rests = soon ? rareness > soon_rarest : lap % (uint64_t{1} << rareness) != 0;
  return rests ? kNone : way;
}

size_t ShareTuner::best_of(const Row& row) {
  size_t best = kNone;
  double least_s = 0;
  for (size_t way = 0; way < kNone; ++way) {
    const bool is_tried = way != kWithout || row.ways[way].count > 1;
    const double cost = row.is_short && way != row.fastest ? kWorthLeaving : 1;
    const double seconds = row.ways[way].usual() * cost * (way == row.taken ? kWorthChanging : 1);
    if (!is_tried || seconds == 0 || (best != kNone && seconds >= least_s)) continue;
    best = way;
    least_s = seconds;
  }
  return best;
}

// Takes no way while the time of some rail is not known.
void ShareTuner::take_best(Row& row) {
  for (size_t rail = 0; rail < kTogether; ++rail) {
    if (!has_way(row, rail) || row.ways[rail].count > 0) continue;
    row.taken = kNone;
    return;
  }
  const size_t best = best_of(row);
  if (best == kNone || best == row.taken) return;
  if (row.taken != kNone && row.is_short) ++row.ways[row.taken].doubts;
  row.taken = best;
  row.promised = row.ways[best].usual();
  if (row.is_short) row.ways[best].count_anew(uncounted(row, best));
}

void ShareTuner::learn(const OpSample& sample) {
  const std::optional<size_t> index = index_of(sample.op);
  if (!index) return;
  Row& row = rows_[*index];
  if (sample.announced != 0) row.agreed = sample.announced;
  if (!sample.op.leads) return;
  row.calls += sample.operations;
  if (!sample.alone || !sample.whole) return;
  if (!(sample.total_s > 0) || !std::isfinite(sample.total_s)) return;
  row.is_long = sample.total_s > kLongS;
  const size_t way = way_of(sample.agreed);
  if (!has_way(row, way)) return;
  const double cost = sample.total_s / row.unit(sample.op.bytes);
  Way& used = row.ways[way];
  used.add(cost, sample.operations);
  // One operation that something else held up does not end the first trial.
  const int excused = used.trials == 1 ? 1 : 0;
  if (way == row.tried && is_hopeless(row, used.latest()) && ++row.hopeless > excused) row.tries_left = 0;
  // The first trial of short operations ends before a whole sample is there: a part of one is kept.
  const bool ends = way == row.tried && row.tries_left == 0;
  if (ends && used.summed >= kEnoughToTell) used.keep(used.latest(), !used.told);
  if (way == row.taken && row.tries_left == 0) watch(row);
}

// How many operations do not count on a way that was just taken or is tried. While short operations
// go another way a token bucket fills here, and lets the first of them pass.
uint32_t ShareTuner::uncounted(const Row& row, size_t way) {
  if (way == kWithout) return kOwnTrial - (row.is_short ? kAtOnce : kTrial - 1);
  return tries_longer(row, way) ? 1 + kAtOnce : 1;
}

bool ShareTuner::is_hopeless(const Row& row, double cost) {
  return std::any_of(row.ways.begin(), row.ways.end(), [&](const Way& way) {
    return way.count > 0 && cost > kFarFromIt * way.usual();
  });
}

// Notices when the way that is taken has become slower: its rails have changed, or others use them,
// too. For short operations, which take mostly a processor's time, all ways may have become slower:
// another way is taken only after a trial.
void ShareTuner::watch(Row& row) {
  if (!row.is_watched()) return;
  Way& taken = row.ways[row.taken];
  if (taken.usual() > (row.is_short ? kShortUnkept : kUnkept) * row.promised) {
    row.promised = taken.usual();
    taken.count_anew(uncounted(row, row.taken));
    row.stage = 0;
  } else if (row.is_short && taken.usual() > kShortSlower * row.ways[best_of(row)].usual()) {
    begin_trial(row, best_of(row));
  }
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
    const double seconds = row.ways[way].usual() * row.unit(op.bytes);
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

}  // namespace nezha::rails
