#include "rails/transfer_times.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace nezha::rails {
namespace {

constexpr uint64_t kTurn = 64;          // transfers from one rail's turn to be tried to the next one's
constexpr uint32_t kFirstTrials = 3;    // at most, where samples are long in coming
constexpr uint64_t kPatience = 16;      // transfers in which a trial's samples may still come
constexpr double kHopeless = 2;         // times as slow as another rail
constexpr double kSuspicious = 2;       // times as long as usual: timed again at once
// The shortest transfers take a processor's time more than a rail's: their times vary by several
// times with the ranks that run beside them, for hundreds of transfers in a row. So rails are
// compared by times taken in turns, each of one transfer in kSpread. (Longer transfers can keep a
// slow rail busy, which only times in use show.)
constexpr uint64_t kSpread = 4;
constexpr double kFarSlower = 8;        // times: more than processors do
constexpr double kFarFaster = 0.5;      // times
constexpr uint64_t kApproval = 64;      // transfers in which a rail shows that its trial was no accident
constexpr int kRarestTrials = 8;        // powers of two
constexpr uint32_t kSettling = 4;       // trials for the shortest transfers that come ever later
constexpr int kUnlikely = 2;            // powers of two, while no time speaks for the other rail
constexpr uint32_t kPutOffMost = 16;    // transfers

}  // namespace

TransferTimes::TransferTimes(uint32_t rails) : classes_(kClasses) {
  for (Class& each : classes_) each.rails.resize(std::min(rails, kRailsMax));
  for (size_t size = 0; size < class_of(kShortest); ++size) classes_[size].shortest = true;
}

// The median for the shortest transfers: one that passed a full token bucket says nothing.
double TransferTimes::Class::seconds(const Rail& rail) const {
  return shortest ? rail.middle_s : rail.shortest_s;
}

// Another rail replaces the one in use if it takes at most this part of that one's time. On rails
// that are alike the shortest transfers do best where all ranks use the same rail: data that comes
// back on a connection tells the kernel that the data sent on it has arrived, which otherwise needs
// a packet of its own; and there is only one socket to poll.
double TransferTimes::Class::worth_changing() const {
  return shortest ? 0.75 : 0.95;
}

uint32_t TransferTimes::Class::samples() const { return shortest ? kSamples : kSamples / 2; }

uint32_t TransferTimes::Class::enough() const { return shortest ? kSamples - 2 : 2; }

// A rail's first trial is not spread, so that it ends soon: the rail may be far slower.
bool TransferTimes::Class::is_spread(const Rail& rail) const { return shortest && rail.trials > 1; }

uint32_t TransferTimes::Class::trial(const Rail& rail) const {
  return is_spread(rail) ? kUncounted + kSamples : kTrial;
}

size_t TransferTimes::class_of(uint32_t bytes) {
  return std::min<size_t>(static_cast<size_t>(std::bit_width(bytes)), kClasses - 1);
}

double TransferTimes::expected_s(int rail, uint32_t bytes) const {
  const Rail& each = classes_[class_of(bytes)].rails[static_cast<size_t>(rail)];
  return each.is_known() ? each.shortest_s : 0;
}

// Whether the rail is to be timed later, when no other transfer adds to the time.
bool TransferTimes::must_wait(Class& at, int rail, uint32_t free) {
  const bool is_free = (free >> rail & 1) != 0;
  at.put_off = is_free || at.put_off == kPutOffMost ? 0 : at.put_off + 1;
  return at.put_off > 0;
}

int TransferTimes::settled(uint32_t bytes) const {
  const Class& at = classes_[class_of(bytes)];
  const uint64_t transfer = at.transfers + 1;
  const bool is_quiet = at.shortest && at.met && at.tries_left == 0 && at.timings_left == 0 &&
                        at.compared < 0 && transfer % kTurn != 0 && transfer % time_every(bytes) != 0;
  return is_quiet ? at.taken : -1;
}

TransferTimes::Choice TransferTimes::next(uint32_t bytes, std::span<const double> wait_s, uint32_t free) {
  Class& at = classes_[class_of(bytes)];
  const std::span<const double> waits = wait_s.first(std::min(wait_s.size(), at.rails.size()));
  const auto usable = std::count_if(waits.begin(), waits.end(), [](double wait) { return wait >= 0; });
  if (usable == 0) return {};
  ++at.transfers;
  const int trial = usable > 1 ? rail_to_try(at, waits) : -1;
  if (trial >= 0) return {trial, true};
  take_best(at, waits);
  int best = -1;
  double best_s = 0;
  for (size_t rail = 0; rail < waits.size(); ++rail) {
    if (waits[rail] < 0) continue;
    const bool is_taken = static_cast<int>(rail) == at.taken;
    // A rail without known times must not look better than one with known times.
    double own_s = at.rails[rail].is_known() ? at.rails[rail].shortest_s : 1;
    if (at.shortest && at.taken >= 0) {  // measured at another time, so not comparable
      own_s = std::max(own_s, at.rails[static_cast<size_t>(at.taken)].shortest_s);
    }
    const double total_s = waits[rail] + own_s * (is_taken ? at.worth_changing() : 1);
    if (best >= 0 && total_s >= best_s) continue;
    best = static_cast<int>(rail);
    best_s = total_s;
  }
  if (at.transfers % time_every(bytes) == 0) at.timings_left = std::max(at.timings_left, 1u);
  if (at.timings_left == 0) return {best, false};
  const bool later = at.shortest ? at.transfers % kSpread != kSpread / 2 : must_wait(at, best, free);
  if (later) return {best, false};
  --at.timings_left;
  return {best, true};
}

bool TransferTimes::is_hopeless(const Class& at, const Rail& rail) {
  const double times = at.shortest ? kFarSlower : kHopeless;
  return rail.is_known() && std::any_of(at.rails.begin(), at.rails.end(), [&](const Rail& other) {
    return other.is_known() && rail.shortest_s > times * other.shortest_s;
  });
}

int TransferTimes::rail_to_try(Class& at, std::span<const double> wait_s) {
  const auto may_carry = [&](int rail) { return rail >= 0 && wait_s[static_cast<size_t>(rail)] >= 0; };
  if (at.tries_left == 0) {
    at.tried = -1;
    at.met = true;
    for (size_t rail = 0; rail < wait_s.size(); ++rail) {
      const Rail& each = at.rails[rail];
      if (wait_s[rail] < 0 || each.count >= at.enough() || each.trials >= kFirstTrials) continue;
      if (at.shortest && static_cast<int>(rail) == at.taken) continue;  // timed with the others
      // A far slower rail is not tried again for its missing samples: another rail may have taken
      // over the rest of its trial.
      if (each.trials > 0 && is_hopeless(at, each)) continue;
      at.met = false;
      const bool may_come = at.transfers - each.tried_at < kPatience;  // its samples
      if (each.trials > 0 && may_come) continue;
      if (at.tried < 0 || each.trials < at.rails[static_cast<size_t>(at.tried)].trials) {
        at.tried = static_cast<int>(rail);
      }
    }
    if (at.tried < 0 && at.taken >= 0 && at.transfers % kTurn == 0) {
      const size_t turn = at.transfers / kTurn % wait_s.size();
      const Rail& each = at.rails[turn];
      const bool due = at.suspected || at.transfers - each.tried_at >= transfers_apart(at, each);
      if (static_cast<int>(turn) != at.taken && due) at.tried = static_cast<int>(turn);
    }
    if (!may_carry(at.tried)) return -1;
    begin_trial(at, at.rails[static_cast<size_t>(at.tried)]);
  }
  if (at.is_spread(at.rails[static_cast<size_t>(at.tried)]) && at.transfers % kSpread != 0) return -1;
  --at.tries_left;
  if (may_carry(at.tried)) return at.tried;
  at.tries_left = 0;
  return -1;
}

void TransferTimes::begin_trial(Class& at, Rail& tried) {
  tried.tried_at = at.transfers;
  tried.arrived = 0;
  ++tried.trials;
  at.tries_left = at.trial(tried);
  at.suspected = false;
  if (!at.is_spread(tried) || at.taken < 0) return;
  at.rails[static_cast<size_t>(at.taken)].arrived = 0;
  at.timings_left = at.tries_left;
  at.compared = at.tried;
  at.compare_at = at.transfers + at.tries_left * kSpread + kPatience;
}

uint64_t TransferTimes::transfers_apart(const Class& at, const Rail& rail) {
  const Rail& taken = at.rails[static_cast<size_t>(at.taken)];
  const bool are_known = rail.is_known() && taken.is_known();
  const double ratio = are_known ? at.seconds(rail) / at.seconds(taken) : 1;
  int rareness = ratio > 1 ? std::ilogb(ratio) + 1 : 0;
  const bool is_later = &rail > &taken;
  // For the shortest transfers the result of both rails' first trials, at the start of a job, is to
  // be confirmed soon.
  const bool is_doubtful = is_later ? ratio < kFarFaster : !is_hopeless(at, rail);
  if (at.shortest && rail.trials == 1 && is_doubtful) return kTurn;
  if (at.shortest && is_later) rareness += static_cast<int>(std::min(rail.trials, kSettling));
  // While a rail is compared, every operation waits for one of its transfers.
  if (at.shortest && is_later && ratio > at.worth_changing()) rareness += kUnlikely;
  rareness = std::min(rareness + static_cast<int>(rail.doubts), kRarestTrials);
  return uint64_t{at.trial(rail)} * 100 << rareness;
}

// The fastest known rail; for the shortest transfers the first rail that is not far slower than it.
int TransferTimes::best_rail(const Class& at, std::span<const double> wait_s) {
  double best_s = 0;
  const auto is_known = [&](size_t rail) { return wait_s[rail] >= 0 && at.rails[rail].is_known(); };
  for (size_t rail = 0; rail < wait_s.size(); ++rail) {
    if (!is_known(rail)) continue;
    const double seconds = at.rails[rail].shortest_s;
    if (best_s == 0 || seconds < best_s) best_s = seconds;
  }
  const double enough_s = at.shortest ? best_s * kFarSlower : best_s;
  for (size_t rail = 0; rail < wait_s.size(); ++rail) {
    if (is_known(rail) && at.rails[rail].shortest_s <= enough_s) return static_cast<int>(rail);
  }
  return -1;
}

// Returns, for the shortest transfers, the better of the rail that is taken and the rail tried
// beside it, once the times of both are there.
int TransferTimes::better_of_trial(Class& at) {
  if (at.compared < 0 || at.transfers < at.compare_at) return at.taken;
  const int compared = std::exchange(at.compared, -1);
  const Rail& taken = at.rails[static_cast<size_t>(at.taken)];
  const Rail& tried = at.rails[static_cast<size_t>(compared)];
  if (std::min(taken.count, tried.count) < at.enough()) return at.taken;
  // If both rails are alike the first one is taken.
  const double worth = compared < at.taken ? 1 / at.worth_changing() : at.worth_changing();
  return at.seconds(tried) <= worth * at.seconds(taken) ? compared : at.taken;
}

// A rail that is newly taken for longer transfers has to confirm the times that its trial showed.
void TransferTimes::take_best(Class& at, std::span<const double> wait_s) {
  const bool had = at.taken >= 0 && wait_s[static_cast<size_t>(at.taken)] >= 0;
  const int best = had && at.shortest ? better_of_trial(at) : best_rail(at, wait_s);
  if (best < 0 || best == at.taken) return;
  if (had && !at.shortest) {
    Rail& taken = at.rails[static_cast<size_t>(at.taken)];
    const double best_s = at.rails[static_cast<size_t>(best)].shortest_s;
    if (taken.is_known() && best_s > at.worth_changing() * taken.shortest_s) return;
    if (at.transfers - at.taken_at < kApproval) ++taken.doubts;
  }
  at.taken = best;
  at.taken_at = at.transfers;
  if (at.shortest) return;
  at.timings_left = kTrial;
  at.rails[static_cast<size_t>(best)].arrived = kUncounted;
}

void TransferTimes::learn(int rail, uint32_t bytes, double seconds) {
  Class& at = classes_[class_of(bytes)];
  const auto index = static_cast<size_t>(rail);
  if (index >= at.rails.size() || !(seconds > 0) || !std::isfinite(seconds)) return;
  Rail& each = at.rails[index];
  if (rail == at.taken && each.is_known() && seconds > kSuspicious * each.shortest_s) {
    if (!at.shortest) at.timings_left = std::max(at.timings_left, kTrial);
    at.suspected |= at.shortest && seconds > kFarSlower * each.shortest_s;
  }
  // Samples that do not count stand for the rail until one counts.
  if (++each.arrived <= kUncounted + 1) each.count = 0;
  const uint32_t kept = at.samples();
  each.samples[each.count++ % kept] = static_cast<float>(seconds);
  if (each.count == 2 * kept) each.count = kept;
  std::array<float, kSamples> sorted = each.samples;
  const uint32_t known = std::min(each.count, kept);
  const auto middle = sorted.begin() + known / 2;
  std::nth_element(sorted.begin(), middle, sorted.begin() + known);
  each.middle_s = *middle;
  each.shortest_s = *std::min_element(sorted.begin(), middle + 1);
}

}  // namespace nezha::rails
