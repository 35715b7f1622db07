#include "engine/endpoint/peer_links.h"

#include <algorithm>

namespace nezha::engine {

using transport::Connection;
using transport::WorkQueue;

void PeerLinks::add(std::unique_ptr<Connection> connection, double nominal_bytes_per_s) {
  asks_kernel_ |= !connection->drained(0);
  if (choice_ == nullptr && !links_.empty()) choice_ = std::make_unique<Choice>(rails_);
  links_.emplace_back(std::move(connection), nominal_bytes_per_s);
}

Link* PeerLinks::settled(uint32_t bytes) {
  const int rail = choice_->times.settled(bytes);
  Link* const link = rail < 0 ? nullptr : only_link(rail);
  if (link == nullptr || !link->is_usable() || link->is_unproven() || link->backlog >= kBulk ||
      !link->connection->has_room()) {
    return nullptr;
  }
  choice_->times.passed(bytes);
  return link;
}

// A rail on which other transfers wait in bulk takes longer than it did when transfers of this size
// were timed.
Link* PeerLinks::quickest(Nanoseconds now, uint32_t bytes) {
  if (Link* const link = settled(bytes)) {
    occupy(*link, now, bytes);
    return link;
  }
  Choice& with = *choice_;
  uint32_t free = 0;
  std::fill(with.wait_s.begin(), with.wait_s.end(), -1.0);
  std::fill(with.lanes.begin(), with.lanes.end(), nullptr);
  for (Link& link : links_) {
    const auto rail = static_cast<size_t>(link.connection->rail);
    if (!link.is_usable() || link.is_unproven() || !link.connection->has_room()) continue;
    if (with.lanes[rail] != nullptr && with.lanes[rail]->backlog <= link.backlog) continue;
    with.lanes[rail] = &link;
    const double rate = std::max(link.monitor.rate_bytes_per_s(), 1.0);
    if (port_.is_free(rail, now)) free |= 1u << rail;
    with.wait_s[rail] = link.backlog < kBulk ? 0 : static_cast<double>(link.backlog) / rate;
  }
  const control::TransferTimes::Choice choice = with.times.next(bytes, with.wait_s, free);
  if (choice.rail < 0) return nullptr;
  timed_ = timed_alone_ = choice.timed;
  Link* const link = with.lanes[static_cast<size_t>(choice.rail)];
  occupy(*link, now, bytes);
  return link;
}

// Other short transfers wait while this one is sent, but not while its acknowledgement comes.
void PeerLinks::occupy(const Link& link, Nanoseconds now, uint32_t bytes) {
  const int rail = link.connection->rail;
  const double rate = std::max(link.monitor.rate_bytes_per_s(), 1.0);
  const double sending_s = std::max(choice_->times.expected_s(rail, bytes) - link.empty_s, bytes / rate);
  port_.posted(static_cast<size_t>(rail), now, static_cast<Nanoseconds>(sending_s * kSecond));
}

void PeerLinks::took(const Connection& connection, const transport::WorkRequest& request,
                     Nanoseconds now) {
  const double seconds = static_cast<double>(now - request.timed_from) / kSecond;
  const uint32_t bytes = request.header.length;
  if (request.timed_alone) choice_->times.took(connection.rail, bytes, seconds);
  Link* const link = find(connection.rail, connection.lane);
  if (link == nullptr) return;
  if (link->empty_s == 0) link->empty_s = 2 * link->connection->latency_s;
  if (link->empty_s == 0 || seconds < link->empty_s) link->empty_s = seconds;
  // A time that is mostly the wait for the peer says nothing about the rate.
  const double sending_s = seconds - link->empty_s;
  if (bytes >= kWorthTiming && sending_s > link->empty_s) link->monitor.suppose(bytes / sending_s);
}

bool PeerLinks::is_worth_timing(const Link& link, const transport::WorkRequest& request) const {
  return !link.monitor.measured() && link.timings < kTimings && request.header.length >= kWorthTiming;
}

// Short operations go on one rail: asking the kernel for every rail's backlog would cost them more
// than a rail that has stalled since look() measured it. Rates are learned from longer operations.
Link* PeerLinks::sole(uint64_t bytes) {
  constexpr uint64_t kShort = 4 * 1024;
  const int rail = bytes <= kShort ? choice_->binder.sole() : control::RailBinder::kWait;
  Link* const link = rail == control::RailBinder::kWait ? nullptr : only_link(rail);
  if (link == nullptr || !link->is_usable() || link->is_unproven() || !link->connection->has_room()) {
    return nullptr;
  }
  const double rate = std::max(link->monitor.rate_bytes_per_s(), 1.0);
  const double finish = link->connection->latency_s + static_cast<double>(link->backlog + bytes) / rate;
  return control::RailBinder::is_far_too_long(finish) ? nullptr : link;
}

// Null also when the rail has several lanes.
Link* PeerLinks::only_link(int rail) {
  Link* only = nullptr;
  for (Link& link : links_) {
    if (link.connection->rail != rail) continue;
    if (only != nullptr) return nullptr;
    only = &link;
  }
  return only;
}

// Chooses the rail for the next transfer, and on it the connection with the least to do.
Link* PeerLinks::choose(Nanoseconds now, const transport::WorkRequest& request,
                        const control::Shares& shares) {
  const bool again = wire::generation_of(request.header.flags) > 0;
  timed_ = shares.timed && !again;
  timed_alone_ = false;
  if (links_.empty()) return nullptr;
  if (links_.size() == 1) {
    Link& only = links_.front();
    return only.is_usable() && only.connection->has_room() ? &only : nullptr;
  }
  Choice& with = *choice_;
  if (with.shares_number != shares.number || shares.number == 0) with.binder.begin(shares);
  with.shares_number = shares.number;
  const uint64_t bytes = frame_bytes(request);
  const bool is_short = request.header.length <= control::TransferTimes::kBytesMax;
  if (!again && shares.quickest && shares.probe < 0 && is_short) {
    if (Link* const quick = quickest(now, request.header.length)) return quick;
  }
  if (Link* const one = again ? nullptr : sole(bytes)) return one;
  std::fill(with.loads.begin(), with.loads.end(), control::RailLoad());
  std::fill(with.lanes.begin(), with.lanes.end(), nullptr);
  for (Link& link : links_) {
    if (!link.is_usable() || link.is_unproven()) continue;
    const auto rail = static_cast<size_t>(link.connection->rail);
    const uint64_t waiting = backlog(link, now);
    control::RailLoad& load = with.loads[rail];
    load.up = true;
    load.latency_s = link.connection->latency_s;
    load.backlog_bytes += waiting;
    load.rate_bytes_per_s += link.monitor.rate_bytes_per_s();
    if (!link.connection->has_room()) continue;
    load.has_room = true;
    if (with.lanes[rail] == nullptr || waiting < with.lanes[rail]->backlog) with.lanes[rail] = &link;
  }
  measured_ = true;
  const int rail = with.binder.pick(with.loads, bytes, pending_.bytes() - bytes, again);
  if (rail == control::RailBinder::kWait) return nullptr;
  Link* const link = with.lanes[static_cast<size_t>(rail)];
  timed_ |= !again && is_worth_timing(*link, request);
  if (timed_) ++link->timings;
  return link;
}

// The binder has to agree, or it would bind the transfers to the slow rail again.
bool PeerLinks::may_hedge(const Link& slow, double slow_s, const Link& other, double other_s) const {
  const Nanoseconds gain = slow.connection->recall_ends_it() ? kLastResortGain : kHedgeGain;
  if (slow_s < 2 * other_s + static_cast<double>(gain) / kSecond) return false;
  if (choice_->binder.may_carry(other.connection->rail)) return true;
  const bool shared = std::any_of(links_.begin(), links_.end(), [&](const Link& link) {
    return link.is_usable() && choice_->binder.may_carry(link.connection->rail);
  });
  return !shared || control::RailBinder::is_far_too_slow(slow_s, other_s);
}

// Teaches the monitor what has drained since the last look.
void PeerLinks::learn(Link& link, Nanoseconds now, uint64_t backlog,
                      const std::optional<transport::Drained>& told) {
  const uint64_t posted = link.connection->posted_bytes();
  const uint64_t drained = posted - std::min(posted, backlog);
  // Not everything posted before the last look has drained: the connection was never without work.
  const bool backlogged = drained < link.posted_at_last_look &&
                          link.posted_at_last_look - link.drained_at_last_look >= Link::kEnoughToTell;
  const bool learned = told ? link.monitor.sample(told->busy, told->bytes, true)
                            : link.monitor.sample(now, drained, backlogged);
  if (learned) link.measured_at = now;
  link.posted_at_last_look = posted;
  link.drained_at_last_look = drained;
}

namespace {

// The bytes that were probably delivered since the latest report; 0 where that is younger than
// `fresh`. After a longer silence than kPlausible the rail may stand still.
uint64_t delivered_untold(const transport::Drained& told, double rate_bytes_per_s, Nanoseconds fresh) {
  constexpr Nanoseconds kPlausible = 20 * kMillisecond;
  if (told.untold < fresh) return 0;
  const double untold_s = static_cast<double>(std::min(told.untold, kPlausible)) / kSecond;
  return std::min(told.under_way, static_cast<uint64_t>(untold_s * rate_bytes_per_s));
}

}  // namespace

uint64_t PeerLinks::measure(Link& link, Nanoseconds now) {
  // Kernels learn what was delivered from acknowledgements, which are late, too. Greater precision
  // for one rail than for another would give it more than its share.
  constexpr Nanoseconds kAsKernels = 3 * kMillisecond;
  const uint64_t backlog = link.connection->backlog_bytes();
  const auto told = link.connection->drained(now);
  learn(link, now, backlog, told);
  const uint64_t untold = told ? delivered_untold(*told, link.monitor.rate_bytes_per_s(),
                                                 asks_kernel_ ? kAsKernels : 0)
                              : 0;
  link.backlog = backlog - std::min(backlog, untold);
  return link.backlog;
}

uint64_t PeerLinks::backlog(Link& link, Nanoseconds now) {
  if (!measured_) return measure(link, now);
  const uint64_t posted = link.connection->posted_bytes();
  link.backlog += posted - std::min(posted, link.posted_at_last_look);
  link.posted_at_last_look = posted;
  return link.backlog;
}

void PeerLinks::look(Nanoseconds now) {
  if (links_.size() < 2) return;
  for (Link& link : links_) {
    if (link.is_draining()) measure(link, now);
  }
}

bool PeerLinks::is_draining() const {
  if (links_.size() < 2) return false;
  return std::any_of(links_.begin(), links_.end(), [](const Link& link) { return link.is_draining(); });
}

Connection* PeerLinks::any_up() {
  Connection* up = nullptr;
  for (Link& link : links_) {
    if (link.is_usable()) return link.connection.get();
    if (link.is_up()) up = link.connection.get();
  }
  return up;
}

Link* PeerLinks::usable() {
  const auto found = std::find_if(links_.begin(), links_.end(),
                                  [](const Link& link) { return link.is_usable(); });
  return found == links_.end() ? nullptr : &*found;
}

bool PeerLinks::has_unresolved() const {
  return std::any_of(links_.begin(), links_.end(),
                     [](const Link& link) { return !link.unresolved.requests.empty(); });
}

Link* PeerLinks::find(int rail, int lane) {
  for (Link& link : links_) {
    if (link.connection->rail == rail && link.connection->lane == lane) return &link;
  }
  return nullptr;
}

bool PeerLinks::has_output() const {
  return std::any_of(links_.begin(), links_.end(),
                     [](const Link& link) { return link.connection->has_output(); });
}

void PeerLinks::withdraw(const transport::WorkOwner& owner, WorkQueue& unsent) {
  const auto split = [&](WorkQueue& queue) {
    WorkQueue kept;
    while (!queue.empty()) {
      transport::WorkRequest* request = queue.pop_front();
      (request->owner == &owner ? unsent : kept).push_back(*request);
    }
    queue = kept;
  };
  split(pending_);
  for (Link& link : links_) {
    link.connection->disown(owner, unsent);
    // The place of a request among the unresolved counts: it stays, without its memory.
    for (transport::WorkRequest* request = link.unresolved.requests.front(); request != nullptr;
         request = request->next) {
      if (request->owner == &owner) request->owner = nullptr, request->data = nullptr;
    }
  }
}

WorkQueue PeerLinks::take_pending() {
  WorkQueue taken;
  for (Link& link : links_) taken.append(link.unresolved.requests);
  taken.append(pending_);
  return taken;
}

control::PeerRate PeerLinks::rate(uint32_t rail) const {
  control::PeerRate rate;
  for (const Link& link : links_) {
    if (link.connection->rail != static_cast<int>(rail)) continue;
    rate.bytes_per_s += link.monitor.rate_bytes_per_s();
    rate.known |= link.monitor.known();
    rate.measured_at = std::max(rate.measured_at, link.measured_at);
  }
  return rate;
}

}  // namespace nezha::engine
