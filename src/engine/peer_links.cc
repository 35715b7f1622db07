#include "engine/peer_links.h"

#include <algorithm>

namespace nezha::engine {

using transport::Endpoint;
using transport::WorkQueue;

void PeerLinks::add(std::unique_ptr<Endpoint> endpoint, double nominal_bytes_per_s) {
  links_.push_back({std::move(endpoint), control::RailMonitor(nominal_bytes_per_s), 0});
}

// The rail for the next transfer, and of its connections the one with the least to do.
PeerLinks::Link* PeerLinks::choose(Nanoseconds now, uint64_t bytes) {
  if (links_.size() == 1) {
    Link& only = links_.front();
    return only.endpoint->has_room() ? &only : nullptr;
  }
  std::fill(loads_.begin(), loads_.end(), control::RailLoad());
  std::fill(lanes_.begin(), lanes_.end(), nullptr);
  for (Link& link : links_) {
    if (!link.endpoint->is_up()) continue;
    const auto rail = static_cast<size_t>(link.endpoint->rail);
    const uint64_t backlog = measure(link, now);
    control::RailLoad& load = loads_[rail];
    load.up = true;
    load.latency_s = link.endpoint->latency_s;
    load.backlog_bytes += backlog;
    load.rate_bytes_per_s += link.monitor.rate_bytes_per_s();
    if (!link.endpoint->has_room()) continue;
    load.has_room = true;
    if (lanes_[rail] == nullptr || backlog < lanes_[rail]->backlog) lanes_[rail] = &link;
    link.backlog = backlog;
  }
  const int rail = binder_.pick(loads_, bytes, pending_.bytes() - bytes);
  return rail == control::RailBinder::kWait ? nullptr : lanes_[static_cast<size_t>(rail)];
}

// The backlog of one connection; what drained since the last look teaches its monitor.
uint64_t PeerLinks::measure(Link& link, Nanoseconds now) {
  const uint64_t backlog = link.endpoint->backlog_bytes();
  const uint64_t posted = link.endpoint->counters().bytes_sent + link.endpoint->queued_bytes();
  const uint64_t drained = posted - std::min(posted, backlog);
  // Not everything that was there at the last look has drained: it was never without work.
  link.monitor.sample(now, drained, drained < link.posted_at_last_look);
  link.posted_at_last_look = posted;
  link.drained_at_last_look = drained;
  return backlog;
}

void PeerLinks::look(Nanoseconds now) {
  if (links_.size() < 2 || now - looked_at_ < control::RailMonitor::kShortest) return;
  looked_at_ = now;
  for (Link& link : links_) {
    const Endpoint& endpoint = *link.endpoint;
    if (!endpoint.is_up()) continue;
    const uint64_t posted = endpoint.counters().bytes_sent + endpoint.queued_bytes();
    if (posted != link.drained_at_last_look) measure(link, now);
  }
}

Endpoint* PeerLinks::any_up() {
  for (Link& link : links_) {
    if (link.endpoint->is_up()) return link.endpoint.get();
  }
  return nullptr;
}

bool PeerLinks::has_output() const {
  return std::any_of(links_.begin(), links_.end(),
                     [](const Link& link) { return link.endpoint->has_output(); });
}

void PeerLinks::withdraw(const void* owner, WorkQueue& unsent) {
  WorkQueue kept;
  while (!pending_.empty()) {
    transport::WorkRequest* request = pending_.pop_front();
    (request->owner == owner ? unsent : kept).push_back(*request);
  }
  pending_ = kept;
  for (Link& link : links_) link.endpoint->disown(owner, unsent);
}

WorkQueue PeerLinks::take_pending() {
  WorkQueue taken;
  std::swap(taken, pending_);
  return taken;
}

double PeerLinks::rate_bytes_per_s(uint32_t rail) const {
  double rate = 0;
  for (const Link& link : links_) {
    if (link.endpoint->rail == static_cast<int>(rail)) rate += link.monitor.rate_bytes_per_s();
  }
  return rate;
}

bool PeerLinks::is_measured(uint32_t rail) const {
  return std::any_of(links_.begin(), links_.end(), [&](const Link& link) {
    return link.endpoint->rail == static_cast<int>(rail) && link.monitor.measured();
  });
}

}  // namespace nezha::engine
