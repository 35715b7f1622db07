#include "transport/tcp/tcp_rejoin.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "transport/tcp/strangers.h"
#include "transport/tcp/tcp_connect.h"

namespace nezha::transport {
namespace {

// Only a refusal says that nobody listens; a network or a host without means says nothing about the
// peer.
DialOutcome outcome_of_errno(int number) {
  return number == ECONNREFUSED ? DialOutcome::refused : DialOutcome::unanswered;
}

bool is_past(Nanoseconds deadline, Nanoseconds now) { return deadline != kNever && now >= deadline; }

}  // namespace

Result<std::unique_ptr<TcpRejoin>> TcpRejoin::create(const MeshRequest& request,
                                                     progress::Loop& loop, ConnectionEvents& events,
                                                     RejoinEvents& joins,
                                                     std::vector<Descriptor> device_listeners,
                                                     std::vector<Descriptor> local_listeners) {
  std::unique_ptr<TcpRejoin> made(new TcpRejoin(request, loop, events, joins));
  for (auto* listeners : {&device_listeners, &local_listeners}) {
    for (size_t rail = 0; rail < listeners->size(); ++rail) {
      NEZHA_RETURN_IF_ERROR(
          made->open_door(std::move((*listeners)[rail]), static_cast<int>(rail)));
    }
  }
  std::vector<std::string> devices;
  for (const RailAddress& rail : request.ranks[static_cast<size_t>(request.rank)].rails) {
    devices.push_back(rail.name);
  }
  TcpRejoin* const self = made.get();
  made->links_ = LinkWatch::open(loop, devices, [self](int rail, bool up) {
    self->carriers_.emplace_back(rail, up);
  });
  return made;
}

TcpRejoin::TcpRejoin(const MeshRequest& request, progress::Loop& loop, ConnectionEvents& events,
                     RejoinEvents& joins)
    : request_(request), identity_(identity_of(request)), strangers_max_(strangers_max(request)),
      loop_(loop), events_(events), joins_(joins) {}

void TcpRejoin::stop() {
  stopped_ = true;
  for (Door& door : doors_) {
    if (door.watched) loop_.remove(door.fd.get(), &door);
  }
  for (Attempts* list : {&dialled_, &accepted_}) {
    for (Attempt& attempt : *list) unwatch(attempt);
    list->clear();
  }
  doors_.clear();
  links_.reset();
  finished_.clear();
  carriers_.clear();
}

// ------------------------------------------------------------------------------------ doors

Status TcpRejoin::open_door(Descriptor listener, int rail) {
  Door& door = doors_.emplace_back(*this, std::move(listener), rail);
  NEZHA_RETURN_IF_ERROR(loop_.add(door.fd.get(), EPOLLIN, &door));
  door.watched = true;
  return Status::ok();
}

void TcpRejoin::accept_at(Door& door) {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    const Nanoseconds now = loop_.clock().now();
    const auto oldest = in_the_way();
    const Nanoseconds room_at = oldest == accepted_.end() ? 0 : oldest->trial->since() + kStrangersStay;
    if (room_at > now) return close_door(door, room_at);
    const int fd = accept4(door.fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      admit(door.rail, Descriptor(fd));
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN) return;
    NEZHA_LOG(debug, "tcp", "rail %d cannot accept a connection now: %s", door.rail,
              std::strerror(errno));
    return close_door(door, now + kShortagePause);
  }
}

// What is in its queue would wake the loop again and again.
void TcpRejoin::close_door(Door& door, Nanoseconds until) {
  loop_.remove(door.fd.get(), &door);
  door.watched = false;
  doors_reopen_at_ = std::min(doors_reopen_at_, until);
}

void TcpRejoin::reopen_doors(Nanoseconds now) {
  if (!is_past(doors_reopen_at_, now)) return;
  doors_reopen_at_ = kNever;
  for (Door& door : doors_) {
    if (!door.watched) door.watched = loop_.add(door.fd.get(), EPOLLIN, &door).is_ok();
    if (!door.watched) doors_reopen_at_ = now + kShortagePause;
  }
}

void TcpRejoin::admit(int rail, Descriptor fd) {
  const Nanoseconds now = loop_.clock().now();
  if (const auto oldest = in_the_way(); oldest != accepted_.end()) {
    refusals_.note(*oldest->trial, kCrowdedOut, now);
    drop(*oldest);
  }
  auto trial = std::make_unique<TcpTrial>(identity_, std::move(fd), rail, now);
  Attempt& attempt = add(accepted_, Kind::accepted);
  attempt.trial = std::move(trial);
  attempt.deadline = attempt.trial->deadline();
  watch(attempt);
}

void TcpRejoin::take_over(std::unique_ptr<TcpTrial> member) {
  const Nanoseconds now = loop_.clock().now();
  Attempt& attempt = add(accepted_, Kind::accepted);
  attempt.trial = std::move(member);
  settle(attempt, now);
}

std::list<TcpRejoin::Attempt>::iterator TcpRejoin::in_the_way() {
  return oldest_in_the_way(accepted_, strangers_max_,
                           [](const Attempt& each) { return !each.member; });
}

// --------------------------------------------------------------------------------- attempts

TcpRejoin::Attempt& TcpRejoin::add(Attempts& list, Kind kind) {
  Attempt& attempt = list.emplace_back(*this, kind);
  attempt.self = std::prev(list.end());
  return attempt;
}

void TcpRejoin::dial(const Path& path, uint32_t epoch, Nanoseconds patience) {
  if (stopped_) return;
  Attempt& attempt = add(dialled_, Kind::dialled);
  attempt.path = path;
  auto fd = dial_rail(request_, path.peer, path.rail, path.peer_rail);
  if (!fd) {
    const Status why = fd.status();
    return finish(attempt, false, outcome_of_errno(why.os_errno), why.message());
  }
  const Nanoseconds now = loop_.clock().now();
  attempt.deadline = now + patience;
  attempt.trial = std::make_unique<TcpTrial>(identity_, std::move(*fd), path.peer, path.rail,
                                             path.peer_rail, path.lane, epoch, now,
                                             attempt.deadline);
  settle(attempt, now);
}

void TcpRejoin::probe(const Path& path, Nanoseconds patience) {
  if (stopped_) return;
  Attempt& attempt = add(dialled_, Kind::probe);
  attempt.path = path;
  auto fd = dial_rail(request_, path.peer, path.rail, path.peer_rail);
  if (!fd) return finish(attempt, false, outcome_of_errno(fd.status().os_errno), "");
  attempt.deadline = loop_.clock().now() + patience;
  attempt.probe_fd = std::move(*fd);
  watch(attempt);
}

void TcpRejoin::watch(Attempt& attempt) {
  const auto wanted = attempt.trial ? static_cast<uint32_t>(attempt.trial->poll_events())
                                    : static_cast<uint32_t>(EPOLLOUT);
  if (wanted == attempt.watched_for) return;
  const Status watched = attempt.watched_for == 0
                             ? loop_.add(attempt.descriptor(), wanted, &attempt)
                             : loop_.modify(attempt.descriptor(), wanted, &attempt);
  attempt.watched_for = wanted;
  if (watched) return;
  if (attempt.kind == Kind::accepted) return drop(attempt);
  finish(attempt, false, DialOutcome::unanswered, watched.message());
}

void TcpRejoin::unwatch(Attempt& attempt) {
  if (attempt.watched_for != 0) loop_.remove(attempt.descriptor(), &attempt);
  attempt.watched_for = 0;
}

void TcpRejoin::advance(Attempt& attempt, uint32_t epoll_events) {
  if (attempt.kind == Kind::probe) return advance_probe(attempt);
  const Nanoseconds now = loop_.clock().now();
  // Of the events that poll and epoll share, the values are the same.
  attempt.trial->on_poll(static_cast<short>(epoll_events & 0xff), now);
  settle(attempt, now);
}

void TcpRejoin::advance_probe(Attempt& attempt) {
  const int number = dial_error(attempt.probe_fd.get());
  finish(attempt, number == 0, outcome_of_errno(number), "");
}

void TcpRejoin::settle(Attempt& attempt, Nanoseconds now) {
  TcpTrial& trial = *attempt.trial;
  if (trial.is_dialler() && trial.state() == TcpTrial::State::tested) trial.decide(true, 1);
  const bool alive = trial.state() != TcpTrial::State::failed;
  if (attempt.kind == Kind::accepted && alive && trial.is_authenticated() && !attempt.member) {
    attempt.member = true;
    attempt.deadline = now + kMemberTimeout;
  }
  switch (trial.state()) {
    case TcpTrial::State::failed:
      return fail_trial(attempt, now);
    case TcpTrial::State::unused:
      return drop(attempt);
    case TcpTrial::State::used:
      if (trial.is_flushed()) return finish(attempt, true, DialOutcome::failed, "");
      break;
    default:
      break;
  }
  watch(attempt);
}

void TcpRejoin::fail_trial(Attempt& attempt, Nanoseconds now) {
  const TcpTrial& trial = *attempt.trial;
  if (attempt.kind == Kind::accepted) {
    refusals_.note(trial, now);
    return drop(attempt);
  }
  const bool failed = trial.state() == TcpTrial::State::failed;
  finish(attempt, false,
         trial.was_answered() ? DialOutcome::failed : outcome_of_errno(trial.dial_errno()),
         failed ? trial.reason() : "connected, but the connection was not taken over in time");
}

void TcpRejoin::finish(Attempt& attempt, bool succeeded, DialOutcome outcome, std::string reason) {
  unwatch(attempt);
  attempt.succeeded = succeeded;
  attempt.outcome = outcome;
  attempt.reason = std::move(reason);
  if (!succeeded || attempt.kind == Kind::probe) {
    if (attempt.trial) attempt.trial->close();
    attempt.probe_fd.reset(-1);
  }
  Attempts& list = attempt.kind == Kind::accepted ? accepted_ : dialled_;
  finished_.splice(finished_.end(), list, attempt.self);
}

void TcpRejoin::drop(Attempt& attempt) {
  unwatch(attempt);
  (attempt.kind == Kind::accepted ? accepted_ : dialled_).erase(attempt.self);
}

// ----------------------------------------------------------------------------------- events

void TcpRejoin::run(Nanoseconds now) {
  reopen_doors(now);
  expire(dialled_, now);
  expire(accepted_, now);
  // What an event starts and fails at once waits for the next turn, so that this one ends.
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
}

void TcpRejoin::expire(Attempts& list, Nanoseconds now) {
  for (auto it = list.begin(); it != list.end();) {
    Attempt& attempt = *it++;
    if (!is_past(attempt.deadline, now)) continue;
    if (attempt.kind == Kind::probe) {
      finish(attempt, false, DialOutcome::unanswered, "");
      continue;
    }
    attempt.trial->on_time(now);
    fail_trial(attempt, now);
  }
}

void TcpRejoin::raise(Attempt& attempt) {
  if (attempt.kind == Kind::probe) {
    const Probed otherwise =
        attempt.outcome == DialOutcome::refused ? Probed::refusal : Probed::nothing;
    return joins_.on_probed(attempt.path, attempt.succeeded ? Probed::host : otherwise);
  }
  if (!attempt.succeeded) {
    return joins_.on_dial_failed(attempt.path, attempt.outcome, attempt.reason);
  }
  auto connection = make_connection(request_, loop_, events_, *attempt.trial);
  if (connection) return joins_.on_joined(std::move(*connection));
  const std::string why = connection.status().message();
  if (attempt.kind == Kind::dialled) {
    return joins_.on_dial_failed(attempt.path, DialOutcome::failed, why);
  }
  NEZHA_LOG(warn, "tcp", "rail %d: a connection of rank %d was made again and cannot be used: %s",
            attempt.trial->rail(), attempt.trial->peer(), why.c_str());
}

Nanoseconds TcpRejoin::next_wakeup() const {
  if (!finished_.empty() || !carriers_.empty()) return 0;
  Nanoseconds soonest = doors_reopen_at_;
  for (const Attempts* list : {&dialled_, &accepted_}) {
    for (const Attempt& attempt : *list) soonest = std::min(soonest, attempt.deadline);
  }
  return stopped_ ? kNever : soonest;
}

}  // namespace nezha::transport
