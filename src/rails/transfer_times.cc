#include "rails/transfer_times.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "rails/constants.h"

namespace nezha::rails {
namespace {

constexpr uint64_t time_every(uint32_t bytes) {
  return bytes < kShortestTransfers ? kTimeShortestEvery : kTimeEvery;
}

}  // namespace

TransferTimes::Class::Class(uint32_t rails, bool is_shortest)
    : tuner(rails, {.varied = is_shortest,
                    .worth_leaving = is_shortest ? kShortestWorthLeavingFirst : kWorthLeavingFirst,
                    .unkept = kTimeUnkept}) {}

TransferTimes::TransferTimes(uint32_t rails) : rails_(std::min(rails, kRailsMax)) {
  const size_t sizes = class_of(kUndividedBytesMax) + 1;
  for (size_t size = 0; size < sizes; ++size) classes_.emplace_back(rails_, size == 0);
}

size_t TransferTimes::class_of(uint32_t bytes) {
  const uint64_t at_most = std::min<uint64_t>(bytes, kUndividedBytesMax);
  return static_cast<size_t>(std::bit_width(at_most / kShortestTransfers));
}

double TransferTimes::expected_s(int rail, uint32_t bytes) const {
  return classes_[class_of(bytes)].tuner.usual(static_cast<size_t>(rail));
}

// Whether rails are to be timed later, when no other transfer adds to the time.
bool TransferTimes::Class::must_wait(bool is_free) {
  put_off = is_free || put_off == kPutOffMost ? 0 : put_off + 1;
  return put_off > 0;
}

int TransferTimes::settled(uint32_t bytes) const {
  const Class& at = classes_[class_of(bytes)];
  const bool times = at.timings_left > 0 || (at.tuner.calls() + 1) % time_every(bytes) == 0;
  const size_t rail = at.tuner.settled();
  return bytes >= kShortestTransfers || times || rail == Tuner::kNone ? -1 : static_cast<int>(rail);
}

TransferTimes::Choice TransferTimes::next(uint32_t bytes, std::span<const double> wait_s, uint32_t free) {
  Class& at = classes_[class_of(bytes)];
  const std::span<const double> waits = wait_s.first(std::min<size_t>(wait_s.size(), rails_));
  uint32_t usable = 0;
  for (size_t rail = 0; rail < waits.size(); ++rail) usable |= waits[rail] >= 0 ? 1u << rail : 0;
  if (usable == 0) return {};
  at.tuner.passed(1);
  const auto first = static_cast<size_t>(std::countr_zero(usable));
  const bool may_time = !at.must_wait((free & usable) == usable);
  const bool may_try = may_time || !at.tuner.is_settled();  // the first trials wait for nobody
  if (may_try && std::popcount(usable) > 1) {
    const size_t way = at.tuner.next(usable, first);
    if (at.tuner.is_trying()) return {static_cast<int>(way), true};
  }
  const int best = at.soonest(usable, waits);
  if (at.tuner.calls() % time_every(bytes) == 0) at.timings_left = std::max(at.timings_left, 1u);
  if (at.timings_left == 0 || !may_time) return {best, false};
  --at.timings_left;
  return {best, true};
}

// The rail that is taken, unless the transfer would wait so long there that another is sooner.
int TransferTimes::Class::soonest(uint32_t usable, std::span<const double> wait_s) const {
  const size_t taken = tuner.taken();
  const double least_s = taken == Tuner::kNone ? 0 : tuner.usual(taken);
  const auto total_s = [&](size_t rail) {
    // A rail without known times must not look better than one with known times.
    const double own_s = tuner.is_known(rail) ? tuner.usual(rail) : 1;
    return wait_s[rail] + (rail == taken ? least_s : std::max(own_s, least_s));
  };
  size_t best = (usable >> taken & 1) != 0 ? taken : static_cast<size_t>(std::countr_zero(usable));
  for (size_t rail = 0; rail < wait_s.size(); ++rail) {
    if ((usable >> rail & 1) != 0 && total_s(rail) < total_s(best)) best = rail;
  }
  return static_cast<int>(best);
}

void TransferTimes::learn(int rail, uint32_t bytes, double seconds) {
  if (rail < 0 || static_cast<uint32_t>(rail) >= rails_) return;
  if (!(seconds > 0) || !std::isfinite(seconds)) return;
  Class& at = classes_[class_of(bytes)];
  const auto way = static_cast<size_t>(rail);
  const bool suspicious = at.tuner.is_known(way) && seconds > kSuspicious * at.tuner.usual(way);
  if (way == at.tuner.taken() && suspicious) at.timings_left = std::max(at.timings_left, kTimedAgain);
  at.tuner.learn(way, seconds);
}

}  // namespace nezha::rails
