// Connector: tells the receivers of events what has become of attempts.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "transport/connect/connector.h"

namespace nezha::transport {

void Connector::run(Nanoseconds now) {
  resume_listening(now);
  dial_again(now);
  expire(dialled_, now);
  expire(accepted_, now);
  prober_.run(now, joins_);
  // If an event starts an attempt that fails at once, this is told in the next turn, so that this
  // turn ends.
  for (size_t left = finished_.size(); left > 0 && !finished_.empty(); --left) {
    Attempts told;
    told.splice(told.end(), finished_, finished_.begin());
    raise(told.front());
  }
  while (!carriers_.empty()) {
    const auto [rail, up] = carriers_.front();
    carriers_.pop_front();
    joins_.on_carrier(rail, up);
  }
  if (std::exchange(devices_changed_, false)) joins_.on_devices_changed();
}

void Connector::expire(Attempts& list, Nanoseconds now) {
  for (auto it = list.begin(); it != list.end();) {
    Attempt& attempt = *it++;
    if (!is_past(attempt.deadline, now)) continue;
    if (!attempt.handshake) {
      finish(attempt, false, DialOutcome::unanswered,
             attempt.reason.empty() ? "no answer" : std::string(attempt.reason));
      continue;
    }
    const bool unheard = attempt.handshake->is_unheard();
    attempt.handshake->on_time(now);
    fail_handshake(attempt, now, unheard);
  }
}

void Connector::raise(Attempt& attempt) {
  if (!attempt.succeeded) {
    return joins_.on_dial_failed(attempt.path, attempt.outcome, attempt.reason);
  }
  const Handshake& handshake = *attempt.handshake;
  if (handshake.epoch() == wire::kRequestEpoch) {
    if (chooser_ == nullptr) return;
    if (handshake.is_dialer()) return chooser_->on_request_heard(attempt.path);
    return chooser_->on_connection_requested(handshake.peer());
  }
  const bool chosen = attempt.waits_for_choice(handshake.epoch());
  if (chosen && !handshake.is_dialer()) chooser_->on_chosen(handshake.peer(), handshake.total());
  auto connection = make_connection(request_, opener_, home_, *attempt.handshake);
  if (connection) return joins_.on_joined(std::move(*connection));
  if (chosen) {
    return chooser_->on_unusable(handshake.path(), connection.status());
  }
  const std::string why = connection.status().message();
  if (attempt.kind == Kind::dialled) {
    return joins_.on_dial_failed(attempt.path, DialOutcome::failed, why);
  }
  NEZHA_LOG(warn, "tcp", "rail %d: a connection of rank %d was made again and cannot be used: %s",
            attempt.handshake->rail(), attempt.handshake->peer(), why.c_str());
}

Nanoseconds Connector::next_wakeup() const {
  if (!finished_.empty() || !carriers_.empty() || devices_changed_) return 0;
  Nanoseconds soonest = std::min(listen_at_, prober_.next_wakeup());
  for (const Attempts* list : {&dialled_, &accepted_}) {
    for (const Attempt& each : *list) soonest = std::min({soonest, each.deadline, each.dial_at});
  }
  return stopped_ ? kNever : soonest;
}

}  // namespace nezha::transport
