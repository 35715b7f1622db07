#include "engine/flow/reconciler.h"

#include <algorithm>

#include "engine/common/options.h"
#include "engine/flow/constants.h"
#include "engine/flow/transfers.h"

namespace nezha::engine {

using transport::WorkQueue;
using wire::ConnectionName;
using wire::LandedHeader;
using wire::ReconcileHeader;

void Reconciler::hold(PeerLinks& links, Link& link, WorkQueue& requests, uint32_t first) {
  repost(links, link);
  link.unresolved.requests.append(requests);
  link.unresolved.epoch = link.connection->epoch;
  link.unresolved.first = first;
  link.unresolved.until = kNever;
  ask(links, link);
}

void Reconciler::repost(PeerLinks& links, Link& link) {
  link.unresolved.until = kNever;
  WorkQueue all;
  all.append(link.unresolved.requests);
  transfers_.repost(links, all);
}

void Reconciler::ask(PeerLinks& links, Link& link) {
  Link* const over = links.usable();
  if (over == nullptr) return;  // ask_all asks when there is one again
  const bool for_good = !link.is_up() || link.connection->epoch != link.unresolved.epoch;
  const ReconcileHeader question{name_of(link, link.unresolved.epoch), for_good};
  over->connection->post_control(question.to_frame(), {});
  over->connection->flush();
  if (link.unresolved.requests.empty()) return;
  link.unresolved.until = clock_.now() + kLandedPatience;
  due_ = std::min(due_, link.unresolved.until);
}

void Reconciler::ask_all(PeerLinks& links) {
  for (Link& link : links.links()) {
    if (!link.unresolved.requests.empty() && link.unresolved.until == kNever) ask(links, link);
  }
}

void Reconciler::run(PeerLinks& links, Nanoseconds now) {
  for (Link& link : links.links()) {
    if (now >= link.unresolved.until) repost(links, link);
    else due_ = std::min(due_, link.unresolved.until);
  }
}

// ---------------------------------------------------------------------------- asked and answered

ConnectionName Reconciler::name_of(const Link& link, uint32_t epoch) const {
  return {static_cast<uint16_t>(link.name_rail(options_.rank)),
          static_cast<uint16_t>(link.connection->lane), epoch};
}

Link* Reconciler::named(PeerLinks& links, const ConnectionName& name) const {
  for (Link& link : links.links()) {
    if (link.name_rail(options_.rank) == name.rail && link.connection->lane == name.lane) {
      return &link;
    }
  }
  return nullptr;
}

Link* Reconciler::answer(PeerLinks& links, const ReconcileHeader& header) {
  Link* const link = named(links, header.connection);
  if (link == nullptr) return nullptr;
  const uint32_t epoch = header.connection.epoch;
  const bool present = epoch == link->connection->epoch;
  if (!present && epoch != link->past_epoch) return nullptr;
  const uint32_t landed = present ? link->connection->landed_frames() : link->past_landed;
  if (transport::Connection* over = links.any_up()) {
    over->post_control(LandedHeader{name_of(*link, epoch), landed}.to_frame(), {});
    over->flush();
  }
  return present ? link : nullptr;
}

void Reconciler::on_landed(PeerLinks& links, const LandedHeader& header) {
  Link* const link = named(links, header.connection);
  if (link == nullptr || link->unresolved.requests.empty()) return;
  if (header.connection.epoch != link->unresolved.epoch) return;
  auto landed = static_cast<int32_t>(header.frames - link->unresolved.first);
  for (; landed > 0 && !link->unresolved.requests.empty(); --landed) {
    ++reconciled_;
    transfers_.release(*link->unresolved.requests.pop_front());
  }
  repost(links, *link);
}

}  // namespace nezha::engine
