#include "engine/endpoint/peer_links.h"

#include <algorithm>

namespace nezha::engine {

using transport::Connection;
using transport::WorkQueue;

void PeerLinks::add(std::unique_ptr<Connection> connection, double nominal_bytes_per_s) {
  const bool second = choice_ == nullptr && !links_.empty();
  if (second) choice_ = std::make_unique<RailChoice>(rails_, port_, links_);
  links_.emplace_back(std::move(connection), nominal_bytes_per_s);
}

void PeerLinks::learn_time(const Connection& connection, const transport::WorkRequest& request,
                     Nanoseconds now) {
  Link* const link = find(connection.rail, connection.lane);
  if (link != nullptr && choice_ != nullptr) choice_->learn_time(*link, request, now);
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

rails::PeerRate PeerLinks::rate(uint32_t rail) const {
  rails::PeerRate rate;
  for (const Link& link : links_) {
    if (link.connection->rail != static_cast<int>(rail)) continue;
    rate.bytes_per_s += link.monitor.rate_bytes_per_s();
    rate.known |= link.monitor.known();
    rate.measured_at = std::max(rate.measured_at, link.measured_at);
  }
  return rate;
}

}  // namespace nezha::engine
