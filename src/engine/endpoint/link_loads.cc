#include "engine/endpoint/link_loads.h"

#include <algorithm>
#include <optional>

namespace nezha::engine {
namespace {

// The bytes that were probably delivered since the latest report; 0 where that is younger than
// `fresh`. After a longer silence than kPlausibleSilence the rail may stand still.
uint64_t delivered_untold(const transport::Drained& told, double rate_bytes_per_s, Nanoseconds fresh) {
  if (told.untold < fresh) return 0;
  const double untold_s = static_cast<double>(std::min(told.untold, kPlausibleSilence)) / kSecond;
  return std::min(told.under_way, static_cast<uint64_t>(untold_s * rate_bytes_per_s));
}

// Teaches the monitor what has drained since the last look.
void learn(Link& link, Nanoseconds now, uint64_t backlog, const std::optional<transport::Drained>& told) {
  const uint64_t posted = link.connection->posted_bytes();
  const uint64_t drained = posted - std::min(posted, backlog);
  // Not everything posted before the last look has drained: the connection was never without work.
  const bool backlogged = drained < link.posted_at_last_look &&
                          link.posted_at_last_look - link.drained_at_last_look >= kEnoughToTell;
  const bool learned = told ? link.monitor.sample(told->busy, told->bytes, true)
                            : link.monitor.sample(now, drained, backlogged);
  if (learned) link.measured_at = now;
  link.posted_at_last_look = posted;
  link.drained_at_last_look = drained;
}

}  // namespace

uint64_t LinkLoads::backlog(Link& link, Nanoseconds now) {
  if (!measured_) return measure(link, now);
  const uint64_t posted = link.connection->posted_bytes();
  link.backlog += posted - std::min(posted, link.posted_at_last_look);
  link.posted_at_last_look = posted;
  return link.backlog;
}

void LinkLoads::learn_rates(Nanoseconds now) {
  for (Link& link : links_) {
    if (link.is_draining()) measure(link, now);
  }
}

uint64_t LinkLoads::measure(Link& link, Nanoseconds now) {
  const uint64_t backlog = link.connection->backlog_bytes();
  const auto told = link.connection->drained(now);
  learn(link, now, backlog, told);
  const uint64_t untold =
      told ? delivered_untold(*told, link.monitor.rate_bytes_per_s(), lateness()) : 0;
  link.backlog = backlog - std::min(backlog, untold);
  return link.backlog;
}

// How late all rails are told what was delivered, as soon as a kernel tells it for one of them. With
// better numbers for some rails than for others, those would get more than their share.
Nanoseconds LinkLoads::lateness() const {
  const auto asks = [](const Link& link) { return link.asks_kernel; };
  return std::any_of(links_.begin(), links_.end(), asks) ? kKernelLateness : 0;
}

}  // namespace nezha::engine
