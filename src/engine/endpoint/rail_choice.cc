#include "engine/endpoint/rail_choice.h"

#include <algorithm>

namespace nezha::engine {
namespace {

double rate_of(const Link& link) { return std::max(link.monitor.rate_bytes_per_s(), 1.0); }

bool may_carry(const Link& link) { return link.is_usable() && !link.is_unproven(); }

bool is_free(const Link& link) { return may_carry(link) && link.connection->has_room(); }

}  // namespace

RailChoice::Chosen RailChoice::next(Nanoseconds now, const transport::WorkRequest& request,
                                    const rails::Shares& shares, uint64_t queued_bytes) {
  const bool again = wire::generation_of(request.header.flags) > 0;
  const uint64_t bytes = wire::kHeaderBytes + request.header.length;
  if (shares_number_ != shares.number || shares.number == 0) binder_.begin(shares);
  shares_number_ = shares.number;
  const bool is_short = request.header.length <= kUndividedBytesMax;
  if (!again && shares.quickest && shares.probe < 0 && is_short) {
    const Chosen chosen = quickest(now, request.header.length, shares.timed);
    if (chosen.link != nullptr) return chosen;
  }
  if (Link* const one = again ? nullptr : sole(bytes)) {
    return {.link = one, .by = ChosenBy::share, .timed = shares.timed};
  }
  Chosen chosen;
  chosen.link = soonest(now, bytes, queued_bytes, again, &chosen.by);
  if (chosen.link == nullptr || again) return chosen;
  chosen.timed = shares.timed || is_worth_timing(*chosen.link, request);
  if (chosen.timed) ++chosen.link->timings;
  return chosen;
}

// ------------------------------------------------------------------------------------- by times

// A rail on which other transfers wait in bulk takes longer than it did when transfers of this size
// were timed.
RailChoice::Chosen RailChoice::quickest(Nanoseconds now, uint32_t bytes, bool timed) {
  if (Link* const link = settled(bytes)) {
    occupy(*link, now, bytes);
    return {.link = link, .by = ChosenBy::times, .timed = timed};
  }
  uint32_t free = 0;
  std::fill(wait_s_.begin(), wait_s_.end(), -1.0);
  std::fill(lanes_.begin(), lanes_.end(), nullptr);
  for (Link& link : links_) {
    const auto rail = static_cast<size_t>(link.connection->rail);
    if (!is_free(link)) continue;
    if (lanes_[rail] != nullptr && lanes_[rail]->backlog <= link.backlog) continue;
    lanes_[rail] = &link;
    if (port_.is_free(rail, now)) free |= 1u << rail;
    wait_s_[rail] = link.backlog < kBulk ? 0 : static_cast<double>(link.backlog) / rate_of(link);
  }
  const rails::TransferTimes::Choice choice = times_.next(bytes, wait_s_, free);
  if (choice.rail < 0) return {};
  Link* const link = lanes_[static_cast<size_t>(choice.rail)];
  occupy(*link, now, bytes);
  return {.link = link, .by = ChosenBy::times, .timed = choice.timed, .alone = choice.timed};
}

// Most of the shortest transfers have settled on a rail; null: this one has to be looked at.
Link* RailChoice::settled(uint32_t bytes) {
  const int rail = times_.settled(bytes);
  Link* const link = rail < 0 ? nullptr : only_link(rail);
  if (link == nullptr || link->backlog >= kBulk || !is_free(*link)) return nullptr;
  times_.passed(bytes);
  return link;
}

// Other short transfers wait while this one is sent, but not while its acknowledgement comes.
void RailChoice::occupy(const Link& link, Nanoseconds now, uint32_t bytes) {
  const int rail = link.connection->rail;
  const double sending_s = std::max(times_.expected_s(rail, bytes) - link.empty_s, bytes / rate_of(link));
  port_.posted(static_cast<size_t>(rail), now, static_cast<Nanoseconds>(sending_s * kSecond));
}

void RailChoice::learn_time(Link& link, const transport::WorkRequest& request, Nanoseconds now) {
  const double seconds = static_cast<double>(now - request.timed_from) / kSecond;
  const uint32_t bytes = request.header.length;
  if (request.timed_alone) times_.learn(link.connection->rail, bytes, seconds);
  if (link.empty_s == 0) link.empty_s = 2 * link.connection->latency_s;
  if (link.empty_s == 0 || seconds < link.empty_s) link.empty_s = seconds;
  // A time that is mostly the wait for the peer says nothing about the rate.
  const double sending_s = seconds - link.empty_s;
  if (bytes >= kWorthTiming && sending_s > link.empty_s) link.monitor.suppose(bytes / sending_s);
}

bool RailChoice::is_worth_timing(const Link& link, const transport::WorkRequest& request) {
  return !link.monitor.measured() && link.timings < kTimings && request.header.length >= kWorthTiming;
}

// ------------------------------------------------------------------------ by shares and backlogs

// Short operations go on one rail: asking the kernel for every rail's backlog would cost them more
// than a rail that has stalled since its load was last measured. Rates are learned from longer
// operations.
Link* RailChoice::sole(uint64_t bytes) {
  const int rail = bytes <= kUnaskedBytesMax ? binder_.sole() : rails::RailBinder::kWait;
  Link* const link = rail == rails::RailBinder::kWait ? nullptr : only_link(rail);
  if (link == nullptr || !is_free(*link)) return nullptr;
  const double finish =
      link->connection->latency_s + static_cast<double>(link->backlog + bytes) / rate_of(*link);
  return rails::RailBinder::is_far_too_long(finish) ? nullptr : link;
}

Link* RailChoice::soonest(Nanoseconds now, uint64_t bytes, uint64_t queued_bytes, bool again,
                          ChosenBy* by) {
  std::fill(loads_.begin(), loads_.end(), rails::RailLoad());
  std::fill(lanes_.begin(), lanes_.end(), nullptr);
  for (Link& link : links_) {
    if (!may_carry(link)) continue;
    const auto rail = static_cast<size_t>(link.connection->rail);
    const uint64_t waiting = loads_of_.backlog(link, now);
    rails::RailLoad& load = loads_[rail];
    load.up = true;
    load.latency_s = link.connection->latency_s;
    load.backlog_bytes += waiting;
    load.rate_bytes_per_s += link.monitor.rate_bytes_per_s();
    if (!link.connection->has_room()) continue;
    load.has_room = true;
    if (lanes_[rail] == nullptr || waiting < lanes_[rail]->backlog) lanes_[rail] = &link;
  }
  loads_of_.set_measured();
  const int probed = binder_.probed_rail();
  const int rail = binder_.pick(loads_, bytes, queued_bytes, again);
  if (rail == rails::RailBinder::kWait) return nullptr;
  *by = rail == probed ? ChosenBy::probe
        : again        ? ChosenBy::again
        : binder_.pulls() ? ChosenBy::backlog
                          : ChosenBy::share;
  return lanes_[static_cast<size_t>(rail)];
}

// Null also when the rail has several lanes.
Link* RailChoice::only_link(int rail) {
  Link* only = nullptr;
  for (Link& link : links_) {
    if (link.connection->rail != rail) continue;
    if (only != nullptr) return nullptr;
    only = &link;
  }
  return only;
}

// The binder has to agree, or it would bind the transfers to the slow rail again.
bool RailChoice::may_hedge(const Link& slow, double slow_s, const Link& other, double other_s) const {
  const Nanoseconds gain = slow.connection->recall_ends_it() ? kLastResortGain : kHedgeGain;
  if (slow_s < 2 * other_s + static_cast<double>(gain) / kSecond) return false;
  if (binder_.may_carry(other.connection->rail)) return true;
  const bool shared = std::any_of(links_.begin(), links_.end(), [&](const Link& link) {
    return link.is_usable() && binder_.may_carry(link.connection->rail);
  });
  return !shared || rails::RailBinder::is_far_too_slow(slow_s, other_s);
}

}  // namespace nezha::engine
