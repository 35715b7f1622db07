#include "rails/policies/aggregation_shares.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace nezha::rails {
namespace {

void keep(std::vector<float>& samples, size_t most, double seconds) {
  if (samples.size() < most) samples.push_back(static_cast<float>(seconds));
}

float median(std::vector<float>& samples) {
  if (samples.empty()) return 0;
  const auto middle = samples.begin() + static_cast<ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  const float found = *middle;
  samples.clear();
  return found;
}

// The mean over the ranks that have measured: ranks that wait for others count as much as the last
// rank to come.
double mean(std::span<const AggregationShares::Report> reports, size_t row,
            float AggregationShares::Times::*which) {
  double sum = 0;
  int count = 0;
  for (const AggregationShares::Report& report : reports) {
    const double seconds = report.times[row].*which;
    if (!(seconds > 0) || !std::isfinite(seconds)) continue;
    sum += seconds;
    ++count;
  }
  return count == 0 ? 0 : sum / count;
}

// Averages a new time into the known one. True when none was known before.
bool take_in(double& known, double fresh) {
  if (!(fresh > 0)) return false;
  const bool is_first = known == 0;
  known = is_first ? fresh : known + kFresh * (fresh - known);
  return is_first;
}

}  // namespace

size_t AggregationShares::class_of(uint64_t bytes) {
  const int power = std::bit_width(std::max<uint64_t>(bytes, 1) - 1);  // rounded up
  return static_cast<size_t>(std::clamp(power - 3, 0, kClasses - 1));
}

double AggregationShares::share_of(uint64_t bytes) const {
  if (fixed_ >= 0) return fixed_;
  const double share = rows_[class_of(bytes)].share;
  return share > 0 ? share : 0.5;
}

double AggregationShares::seconds_of(uint64_t bytes) const {
  const Row& row = rows_[class_of(bytes)];
  return row.seconds[static_cast<size_t>(row.best)];
}

Way AggregationShares::way_of(uint64_t bytes) {
  if (fixed_ >= 0) return fixed_ <= 0 ? Way::hosts : fixed_ >= 1 ? Way::node : Way::both;
  const size_t index = class_of(bytes);
  Row& row = rows_[index];
  const int ways = ways_of(index);
  const uint64_t call = row.calls++;
  if (call == 0) learn_from_shorter(index);
  for (int way = 0; way < std::min(ways, 2); ++way) {
    // The first two ways are taken in turn until the times of both are known.
    if (row.seconds[static_cast<size_t>(way)] == 0) return static_cast<Way>(call % 2);
  }
  if (ways == 3 && row.seconds[static_cast<size_t>(Way::both)] == 0) return Way::both;
  if (call < row.next_look) return row.best;
  row.looks_apart = std::min(2 * row.looks_apart, kLooksApartMax);
  row.next_look = call + row.looks_apart;
  const int others = ways - 1;
  const int other = static_cast<int>(row.looks++) % others;
  return static_cast<Way>((static_cast<int>(row.best) + 1 + other) % ways);
}

// A size's first operation is treated like those of the next shorter size that is known; the size's
// own times count from then on.
void AggregationShares::learn_from_shorter(size_t index) {
  Row& row = rows_[index];
  if (row.seconds != decltype(row.seconds){}) return;
  for (size_t apart = 1; apart <= std::min(index, kFarthest); ++apart) {
    const Row& shorter = rows_[index - apart];
    if (shorter.share == 0) continue;
    // Operations that are too short to cut have fewer ways, and cost mostly latency.
    if (ways_of(index - apart) != ways_of(index)) return;
    for (size_t way = 0; way < row.seconds.size(); ++way) {
      row.seconds[way] = std::ldexp(shorter.seconds[way], static_cast<int>(apart));
    }
    row.share = shorter.share;
    row.best = shorter.best;
    return;
  }
}

void AggregationShares::measured(uint64_t bytes, Way way, double hosts_s, double node_s) {
  Samples& samples = samples_[class_of(bytes)];
  switch (way) {
    case Way::hosts: return keep(samples.hosts, kReportedMax, hosts_s);
    case Way::node: return keep(samples.node, kReportedMax, node_s);
    case Way::both:
      keep(samples.both_hosts, kReportedMax, hosts_s);
      keep(samples.both_node, kReportedMax, node_s);
  }
}

AggregationShares::Report AggregationShares::report() {
  Report report;
  for (size_t row = 0; row < kClasses; ++row) {
    Samples& samples = samples_[row];
    report.times[row] = {median(samples.hosts), median(samples.node), median(samples.both_hosts),
                         median(samples.both_node)};
  }
  return report;
}

// Both parts waited equally long for other ranks, so the difference of their times is free of that
// wait. The cut moves by the bytes that would make the difference zero at the rates of the two
// parts. Waiting makes those rates too low and the step too short, never wrong in its direction.
// Returns the time of an operation that is cut where it should be: a way that is only cut badly
// must not be given up.
double AggregationShares::move_cut(Row& row, double hosts_s, double node_s) {
  const double all_by_hosts = hosts_s / (1 - row.share);
  const double all_by_node = node_s / row.share;
  const double step = kCutStep * (hosts_s - node_s) / (all_by_hosts + all_by_node);
  row.share = std::clamp(row.share + step, kShareMin, kShareMax);
  return all_by_hosts * all_by_node / (all_by_hosts + all_by_node);
}

bool AggregationShares::choose(Row& row, int ways) {
  const Way before = row.best;
  for (int way = 0; way < ways; ++way) {
    const double seconds = row.seconds[static_cast<size_t>(way)];
    const double best = row.seconds[static_cast<size_t>(row.best)];
    if (seconds > 0 && (best == 0 || seconds < kWorthChanging * best)) row.best = static_cast<Way>(way);
  }
  return row.best != before;
}

bool AggregationShares::apply(std::span<const Report> reports) {
  bool changed = false;
  for (size_t index = 0; index < kClasses; ++index) {
    Row& row = rows_[index];
    changed |= take_in(row.seconds[static_cast<size_t>(Way::hosts)], mean(reports, index, &Times::hosts));
    changed |= take_in(row.seconds[static_cast<size_t>(Way::node)], mean(reports, index, &Times::node));
    const double hosts_s = mean(reports, index, &Times::both_hosts);
    const double node_s = mean(reports, index, &Times::both_node);
    if (hosts_s > 0 && node_s > 0 && row.share > 0) {
      const double before = row.share;
      changed |= take_in(row.seconds[static_cast<size_t>(Way::both)], move_cut(row, hosts_s, node_s));
      changed |= std::abs(row.share - before) > kNoticeable;
    }
    // The rates of two ways are inversely proportional to their times.
    const double hosts_only = row.seconds[static_cast<size_t>(Way::hosts)];
    const double node_only = row.seconds[static_cast<size_t>(Way::node)];
    if (row.share == 0 && hosts_only > 0 && node_only > 0) {
      row.share = std::clamp(hosts_only / (hosts_only + node_only), kShareMin, kShareMax);
    }
    changed |= choose(row, ways_of(index));
  }
  return changed;
}

}  // namespace nezha::rails
