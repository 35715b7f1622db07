#include "engine/endpoint/rail_divider.h"

#include <algorithm>
#include <span>
#include <utility>

#include "rails/policies/avoiding.h"
#include "rails/rail_monitor.h"

namespace nezha::engine {

using rails::RailSnapshot;
using rails::Shares;

RailDivider::Open RailDivider::open() {
  if (free_.empty()) {
    const size_t slot = divisions_.size();
    free_.reserve(slot);
    Division& made = divisions_.emplace_back();
    made.number = slot;
    return Open(&made, {this});
  }
  Division* const division = free_.back();
  free_.pop_back();
  return Open(division, {this});
}

void RailDivider::close(Division& division) noexcept {
  division.number += kSlotMask + 1;
  division.policy = nullptr;
  free_.push_back(&division);
}

void RailDivider::begin(Division& division, rails::Policy& policy, const rails::OpClass& op,
                        Nanoseconds now) {
  division.policy = &policy;
  division.op = op;
  division.begun_at = now;
  division.announced = 0;
  if (rails_ < 2) return;  // nothing is divided, or accounted for
  std::fill_n(division.use.begin(), rails_, Division::Use());
  std::fill_n(division.use_decided.begin(), rails_, Division::Use());
  division.whole = true;
  const Snapshots& rails = seen(now);
  Lasting& before = lasting(op);
  const bool alike = op.avoid == 0 && before.group == op.group && before.size == size_of(op);
  if (!alike) before.untold = 0, before.untold_for = 0;
  division.lasted = alike && before.shares.number != 0;
  if (division.lasted) {
    division.shares = before.shares;
    division.rails_epoch = epoch_;
    division.decided_at = now;
    return;
  }
  decide(division, policy.shares(op, std::span(rails).first(rails_)), rails, now);
  division.announced = division.shares.announced;
  if (!division.shares.lasts || op.avoid != 0) return;
  before.group = op.group;
  before.size = size_of(op);
  before.shares = division.shares;
}

const Shares& RailDivider::shares(Division& division, Nanoseconds now) {
  const bool changed = division.rails_epoch != epoch_;
  if (!changed && now - division.decided_at < kReviewEvery) return division.shares;
  const Snapshots& rails = seen(now);
  division.whole &= !changed;
  const rails::OpSample since = sample(division, division.decided_at, false, now, rails);
  decide(division, division.policy->review(since, std::span(rails).first(rails_)), rails, now);
  return division.shares;
}

void RailDivider::decide(Division& division, const Shares& shares, const Snapshots& rails,
                         Nanoseconds now) {
  division.shares = rails::avoiding(division.op.avoid, shares, std::span(rails).first(rails_));
  division.shares.number = ++decisions_;
  division.rails_epoch = epoch_;
  division.decided_at = now;
  std::copy_n(division.use.begin(), rails_, division.use_decided.begin());
}

void RailDivider::landed(Division& division, uint32_t rail, uint64_t bytes, Nanoseconds posted,
                         Nanoseconds now) {
  division.use[rail].timed_bytes += bytes;
  division.use[rail].timed_for += now - std::max(posted, landed_at_[rail]);
  landed_at_[rail] = now;
}

void RailDivider::learn(const Division& division, Nanoseconds now) {
  if (rails_ < 2) return;
  // Looks at the rails now, which adds to no operation's time, and not when the next one begins.
  const Snapshots& rails = seen(now);
  Lasting& lasts = lasting(division.op);
  if (division.announced == 0 && division.lasted) {
    if (!division.alone || !division.whole) return;
    ++lasts.untold;
    lasts.untold_for += now - division.begun_at;
    return;
  }
  const bool changes = division.announced != 0 && division.announced != division.shares.agreed;
  if (changes) lasts.shares.number = 0;
  const uint32_t untold = std::exchange(lasts.untold, 0);
  const Nanoseconds untold_for = std::exchange(lasts.untold_for, 0);
  uint64_t sent = 0;
  for (uint32_t rail = 0; rail < rails_; ++rail) sent += division.use[rail].bytes;
  // So short an operation says nothing about rates, and its transfers are timed one by one.
  const bool agrees = division.shares.agreed != 0 || division.announced != 0;
  if (division.shares.quickest && sent < rails::kPieceSmallest && !agrees) return;
  rails::OpSample all = sample(division, division.begun_at, true, now, rails);
  all.operations += untold;
  all.total_s = (all.total_s + static_cast<double>(untold_for) / kSecond) / all.operations;
  division.policy->learn(all);
}

rails::OpSample RailDivider::sample(const Division& division, Nanoseconds since, bool all,
                                      Nanoseconds now, const Snapshots& rails) const {
  rails::OpSample sample;
  sample.op = division.op;
  sample.total_s = static_cast<double>(now - since) / kSecond;
  sample.rails = rails_;
  sample.whole = division.whole;
  sample.reviewed = division.decided_at != division.begun_at;
  sample.timed = division.shares.timed;
  sample.alone = division.alone;
  sample.agreed = division.shares.agreed;
  sample.announced = division.announced;
  for (uint32_t rail = 0; rail < rails_; ++rail) {
    const Division::Use& use = division.use[rail];
    const Division::Use before = all ? Division::Use() : division.use_decided[rail];
    if (division.shares.timed) {
      sample.rail_bytes[rail] = use.timed_bytes - before.timed_bytes;
      sample.rail_s[rail] = static_cast<double>(use.timed_for - before.timed_for) / kSecond;
    } else if (use.bytes > before.bytes) {
      sample.rail_bytes[rail] = use.bytes - before.bytes;
      sample.rail_s[rail] = rails[rail].latency_s +
                            static_cast<double>(sample.rail_bytes[rail]) / rails[rail].rate_bytes_per_s;
    }
  }
  return sample;
}

const RailDivider::Snapshots& RailDivider::seen(Nanoseconds now) {
  if (seen_at_ == kNever || now - seen_at_ >= kSeenAgain) {
    seen_ = snapshots();
    seen_at_ = now;
    for (Lasting& each : lasting_) each.shares.number = 0;
  }
  return seen_;
}

RailDivider::Snapshots RailDivider::snapshots() const {
  Snapshots rails;
  std::vector<rails::PeerRate> rates;
  bool met_any = false;
  for (uint32_t rail = 0; rail < rails_; ++rail) {
    rails[rail].up = false;
    rates.clear();
    peers_.each_connected([&](const PeerLinks& links) {
      met_any = true;
      for (const Link& link : links.links()) {
        if (link.connection->rail != static_cast<int>(rail) || !link.is_usable()) continue;
        rails[rail].up = true;
        rails[rail].latency_s = std::max(rails[rail].latency_s, link.connection->latency_s);
      }
      rates.push_back(links.rate(rail));
    });
    rails[rail].rate_bytes_per_s = rails::rail_rate(rates);
    rails[rail].measured = std::any_of(rates.begin(), rates.end(), [](const rails::PeerRate& each) {
      return each.measured_at > 0;
    });
  }
  // Without any connection, nothing tells which of the rails lead to a peer.
  for (size_t rail = 0; rail < nominal_bytes_per_s_.size() && !met_any; ++rail) {
    rails[rail].up = true;
    rails[rail].rate_bytes_per_s = nominal_bytes_per_s_[rail];
  }
  return rails;
}

}  // namespace nezha::engine
