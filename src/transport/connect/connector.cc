#include "transport/connect/connector.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "transport/connect/strangers.h"

namespace nezha::transport {
namespace {

// Only a refusal says that nobody listens. A network that does not answer, or this host when it
// lacks something, says nothing about the peer.
DialOutcome outcome_of_errno(int number) {
  if (number == ECONNREFUSED) return DialOutcome::refused;
  return is_own_want(number) ? DialOutcome::starved : DialOutcome::unanswered;
}

DialOutcome outcome_of(const Status& why) {
  return why.code() == Code::exhausted ? DialOutcome::starved : outcome_of_errno(why.os_errno);
}

Result<HandshakeIdentity> identity_of(const MeshRequest& request, RailOpener& opener) {
  HandshakeIdentity me{request.rank, static_cast<uint32_t>(request.ranks.size()), request.job,
                       request.secret, request.rail_counts(),
                       static_cast<uint16_t>(request.streams_per_rail), nullptr, nullptr, request.ticket,
                       &opener};
  if (!request.tls && !request.integrity) return me;
  auto protection = stream_protection();
  if (!protection) return protection.status();
  if (request.tls) {
    me.tls = (*protection)->make_key(request.secret);
  } else {
    me.integrity = *protection;
  }
  return me;
}

}  // namespace

Result<std::unique_ptr<Connection>> make_connection(const MeshRequest& request, RailOpener& opener,
                                                    const Home& home, Handshake& handshake) {
  auto connection = std::make_unique<Connection>(
      home.events, opener.make_wire(request, home.loop, handshake),
      ConnectionOptions{request.payload_checksum, request.control_frames_max});
  identify(*connection, handshake.path(), handshake.epoch(), handshake.latency_s());
  NEZHA_RETURN_IF_ERROR(connection->start());
  return connection;
}

Result<std::unique_ptr<Connector>> Connector::create(const MeshRequest& request, RailOpener& opener,
                                                     progress::Loop& loop, const Home& home,
                                                     JoinEvents& joins,
                                                     std::vector<RailListener> listeners,
                                                     Chooser* chooser) {
  auto me = identity_of(request, opener);
  if (!me) return me.status();
  std::unique_ptr<Connector> made(
      new Connector(request, std::move(*me), opener, loop, home, joins, chooser));
  for (RailListener& each : listeners) NEZHA_RETURN_IF_ERROR(made->listen_at(std::move(each)));
  Connector* const self = made.get();
  made->links_ = LinkWatch::open(loop, opener.devices(request), [self](int rail, bool up) {
    self->carriers_.emplace_back(rail, up);
  }, [self] { self->note_devices(); });
  return made;
}

Connector::Connector(const MeshRequest& request, HandshakeIdentity identity, RailOpener& opener,
                     progress::Loop& loop, const Home& home, JoinEvents& joins, Chooser* chooser)
    : request_(request), identity_(std::move(identity)),
      strangers_max_(strangers_max(request)), opener_(opener), loop_(loop), home_(home), joins_(joins),
      chooser_(chooser) {}

std::vector<RailListener> Connector::release_listeners() {
  std::vector<RailListener> released;
  released.reserve(listeners_.size());
  for (Listener& listener : listeners_) {
    if (listener.watched) loop_.remove(listener.socket.fd.get(), &listener);
    listener.watched = false;
    released.push_back(std::move(listener.socket));
  }
  stop();
  return released;
}

// Needs no memory: it is also called when there is none.
void Connector::stop() {
  stopped_ = true;
  for (Listener& listener : listeners_) {
    if (listener.watched) loop_.remove(listener.socket.fd.get(), &listener);
  }
  for (Attempts* list : {&dialled_, &accepted_}) {
    for (Attempt& attempt : *list) unwatch(attempt);
    list->clear();
  }
  prober_.stop();
  look_for_polled();
  listeners_.clear();
  links_.reset();
  finished_.clear();
  carriers_.clear();
}

// --------------------------------------------------------------------------------- attempts

Connector::Attempt& Connector::add(Attempts& list, Kind kind) {
  Attempt& attempt = list.emplace_back(*this, kind);
  attempt.self = std::prev(list.end());
  return attempt;
}

void Connector::dial(const Path& path, uint32_t epoch, Nanoseconds patience) {
  start(Kind::dialled, path, epoch, patience);
}

void Connector::request_connection(const Path& path, Nanoseconds patience) {
  start(Kind::request, path, wire::kRequestEpoch, patience);
}

void Connector::start(Kind kind, const Path& path, uint32_t epoch, Nanoseconds patience) {
  if (stopped_) return;
  Attempt& attempt = add(dialled_, kind);
  attempt.path = path;
  attempt.epoch = epoch;
  attempt.deadline = loop_.clock().now() + patience;
  start_dial(attempt);
}

void Connector::start_dial(Attempt& attempt) {
  const Path& path = attempt.path;
  const Nanoseconds now = loop_.clock().now();
  attempt.dial_at = kNever;
  auto fd = opener_.dial(request_, path);
  if (!fd) {
    const Status why = fd.status();
    return finish(attempt, false, outcome_of(why), why.message());
  }
  attempt.handshake = std::make_unique<Handshake>(identity_, std::move(*fd), path.peer, path.rail,
                                                  path.peer_rail, path.lane, attempt.epoch, now,
                                                  attempt.deadline);
  settle(attempt, now);
}

void Connector::dial_again(Nanoseconds now) {
  for (auto it = dialled_.begin(); it != dialled_.end();) {
    Attempt& attempt = *it++;
    if (is_past(attempt.dial_at, now)) start_dial(attempt);
  }
}

void Connector::watch(Attempt& attempt) {
  const auto wanted = static_cast<uint32_t>(attempt.handshake->poll_events());
  if (wanted == attempt.watched_for) return;
  const Status watched = attempt.watched_for == 0
                             ? loop_.add(attempt.handshake->fd(), wanted, &attempt)
                             : loop_.modify(attempt.handshake->fd(), wanted, &attempt);
  attempt.watched_for = wanted;
  if (watched) return;
  if (attempt.kind == Kind::accepted) return drop(attempt);
  finish(attempt, false, outcome_of(watched), watched.message());
}

void Connector::unwatch(Attempt& attempt) {
  if (attempt.watched_for != 0) loop_.remove(attempt.handshake->fd(), &attempt);
  attempt.watched_for = 0;
}

void Connector::advance(Attempt& attempt, uint32_t epoll_events) {
  const Nanoseconds now = loop_.clock().now();
  // Events that poll and epoll share have the same values.
  attempt.handshake->on_poll(static_cast<short>(epoll_events & 0xff), now);
  settle(attempt, now);
}

void Connector::settle(Attempt& attempt, Nanoseconds now) {
  Handshake& handshake = *attempt.handshake;
  if (handshake.is_dialer() && handshake.state() == Handshake::State::tested) pass(attempt);
  if (attempt.kind == Kind::accepted && handshake.is_authenticated() && !attempt.member) {
    attempt.member = true;
    attempt.deadline = now + kMemberTimeout;
    // Wireup makes at most three rounds of handshakes.
    if (attempt.waits_for_choice(handshake.epoch())) attempt.deadline += 3 * request_.probe_timeout;
  }
  if (handshake.has_failed()) return fail_handshake(attempt, now);
  switch (handshake.state()) {
    case Handshake::State::unused:
      if (handshake.is_flushed()) return drop(attempt);
      break;
    case Handshake::State::requested:
      return finish(attempt, true, DialOutcome::failed, "");
    case Handshake::State::used:
      if (handshake.is_flushed()) return finish(attempt, true, DialOutcome::failed, "");
      break;
    default:
      break;
  }
  watch(attempt);
  look_for_polled();
}

void Connector::pass(Attempt& attempt) {
  if (!attempt.waits_for_choice(attempt.epoch)) {
    attempt.handshake->decide(true, 1);
  } else if (attempt.deadline != kNever) {
    attempt.deadline = kNever;  // it waits for the other rails of the pair, which have deadlines
    chooser_->on_tested(attempt.path);
  }
}

void Connector::decide(const Path& path, bool use, int total) {
  for (auto it = dialled_.begin(); it != dialled_.end();) {
    Attempt& attempt = *it++;
    const bool waits = attempt.handshake && attempt.handshake->state() == Handshake::State::tested;
    if (!waits || attempt.path != path) continue;
    attempt.handshake->decide(use, total);
    settle(attempt, loop_.clock().now());
  }
}

bool Connector::poll() {
  const Nanoseconds now = loop_.clock().now();
  bool any = false;
  for (Attempts* list : {&dialled_, &accepted_}) {
    for (auto it = list->begin(); it != list->end();) {
      Attempt& attempt = *it++;
      if (!attempt.is_polled() || !attempt.handshake->poll(now)) continue;
      any = true;
      settle(attempt, now);
    }
  }
  look_for_polled();
  return any;
}

// The loop polls this object only while some test has to be polled.
void Connector::look_for_polled() {
  const auto is_polled = [](const Attempt& each) { return each.is_polled(); };
  const bool wanted = std::any_of(dialled_.begin(), dialled_.end(), is_polled) ||
                      std::any_of(accepted_.begin(), accepted_.end(), is_polled);
  if (wanted == polling_) return;
  polling_ = wanted;
  wanted ? loop_.add_polled(this) : loop_.remove_polled(this);
}

void Connector::fail_handshake(Attempt& attempt, Nanoseconds now, bool unheard) {
  const Handshake& handshake = *attempt.handshake;
  if (attempt.kind == Kind::accepted) {
    refusals_.record(handshake, now);
    return drop(attempt);
  }
  if (handshake.state() == Handshake::State::turned_away && now + kRedialPause < attempt.deadline) {
    unwatch(attempt);
    attempt.reason = handshake.reason();
    attempt.handshake.reset();
    attempt.dial_at = now + kRedialPause;
    return;
  }
  // The reason of an earlier failure says more than that the time was over when it dialled again.
  const bool cut_short = (unheard || !handshake.was_answered()) && !attempt.reason.empty();
  finish(attempt, false,
         handshake.was_answered() ? DialOutcome::failed : outcome_of_errno(handshake.dial_errno()),
         cut_short                ? std::string(attempt.reason)
         : handshake.has_failed() ? handshake.reason()
                                  : "connected, but the connection was not taken over in time");
}

void Connector::finish(Attempt& attempt, bool succeeded, DialOutcome outcome, std::string reason) {
  unwatch(attempt);
  attempt.succeeded = succeeded;
  attempt.outcome = outcome;
  attempt.reason = std::move(reason);
  const bool is_call = attempt.handshake && attempt.handshake->epoch() == wire::kRequestEpoch;
  if (attempt.handshake && (!succeeded || is_call)) attempt.handshake->close();
  Attempts& list = attempt.kind == Kind::accepted ? accepted_ : dialled_;
  finished_.splice(finished_.end(), list, attempt.self);
}

void Connector::drop(Attempt& attempt) {
  unwatch(attempt);
  (attempt.kind == Kind::accepted ? accepted_ : dialled_).erase(attempt.self);
}

}  // namespace nezha::transport
