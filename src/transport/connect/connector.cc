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

// Only a refusal says that nobody listens; a network or a host without means says nothing about the
// peer.
DialOutcome outcome_of_errno(int number) {
  return number == ECONNREFUSED ? DialOutcome::refused : DialOutcome::unanswered;
}

bool is_past(Nanoseconds deadline, Nanoseconds now) { return deadline != kNever && now >= deadline; }

Path path_of(const Handshake& handshake) {
  return {handshake.peer(), handshake.rail(), handshake.peer_rail(), handshake.lane()};
}

}  // namespace

HandshakeIdentity identity_of(const MeshRequest& request, RailOpener& opener) {
  return {request.rank, static_cast<uint32_t>(request.ranks.size()), request.job, request.secret,
          request.rail_counts(), static_cast<uint16_t>(request.streams_per_rail),
          request.tls ? TlsKey::create(request.secret) : nullptr, request.integrity && !request.tls,
          request.ticket, &opener};
}

Result<std::unique_ptr<Connection>> make_connection(const MeshRequest& request, RailOpener& opener,
                                                    const Home& home, Handshake& handshake) {
  auto connection = std::make_unique<Connection>(
      home.events, opener.make_wire(request, home.loop, handshake),
      ConnectionOptions{request.payload_checksum, request.control_frames_max});
  identify(*connection, path_of(handshake), handshake.epoch(), handshake.latency_s());
  NEZHA_RETURN_IF_ERROR(connection->start());
  return connection;
}

Result<std::unique_ptr<Connector>> Connector::create(const MeshRequest& request, RailOpener& opener,
                                                     progress::Loop& loop, const Home& home,
                                                     JoinEvents& joins,
                                                     std::vector<RailListener> listeners,
                                                     Chooser* chooser) {
  std::unique_ptr<Connector> made(new Connector(request, opener, loop, home, joins, chooser));
  for (RailListener& each : listeners) NEZHA_RETURN_IF_ERROR(made->listen_at(std::move(each)));
  Connector* const self = made.get();
  made->links_ = LinkWatch::open(loop, opener.devices(request), [self](int rail, bool up) {
    self->carriers_.emplace_back(rail, up);
  }, [self] { self->note_devices(); });
  return made;
}

Connector::Connector(const MeshRequest& request, RailOpener& opener, progress::Loop& loop,
                     const Home& home, JoinEvents& joins, Chooser* chooser)
    : request_(request), identity_(identity_of(request, opener)),
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

// Needs no memory: it is called when there is none, too.
void Connector::stop() {
  stopped_ = true;
  for (Listener& listener : listeners_) {
    if (listener.watched) loop_.remove(listener.socket.fd.get(), &listener);
  }
  for (Attempts* list : {&dialled_, &accepted_}) {
    for (Attempt& attempt : *list) unwatch(attempt);
    list->clear();
  }
  look_for_polled();
  listeners_.clear();
  links_.reset();
  finished_.clear();
  carriers_.clear();
}

// ---------------------------------------------------------------------------- rails that come later

void Connector::note_devices() {
  const auto& own = rails_of(request_.rank);
  devices_changed_ |=
      std::any_of(own.begin(), own.end(), [](const auto& rail) { return rail.is_missing(); });
}

std::vector<PlacedRail> Connector::find_rails() {
  std::vector<PlacedRail> found;
  int index = -1;
  for (RailAddress& rail : rails_of(request_.rank)) {
    ++index;
    if (!rail.is_missing() || stopped_) continue;
    RailAddress placed = rail;
    auto sockets = opener_.listen(request_, placed);
    if (sockets && sockets->empty()) continue;
    Status listens = sockets.status();
    for (size_t i = 0; listens && i < sockets->size(); ++i) {
      listens = listen_at({std::move((*sockets)[i]), index});
    }
    if (!listens) {  // an address that cannot be used yet is told of again when it can
      NEZHA_LOG(info, "rails", "%s: %s", rail.name.c_str(), listens.message().c_str());
      continue;
    }
    rail = std::move(placed);
    BlobWriter where;
    write(where, rail);
    found.push_back({index, where.take()});
  }
  return found;
}

void Connector::place_rail(int peer, int rail, std::string_view where) {
  BlobReader reader(where);
  RailAddress placed;
  auto& rails = rails_of(peer);
  if (!read(reader, &placed) || !reader.done() || static_cast<size_t>(rail) >= rails.size()) return;
  if (rails[static_cast<size_t>(rail)].transport == placed.transport) {
    rails[static_cast<size_t>(rail)] = std::move(placed);
  }
}

// -------------------------------------------------------------------------------- listening

Status Connector::listen_at(RailListener socket) {
  Listener& listener = listeners_.emplace_back(*this, std::move(socket));
  NEZHA_RETURN_IF_ERROR(loop_.add(listener.socket.fd.get(), EPOLLIN, &listener));
  listener.watched = true;
  return Status::ok();
}

void Connector::accept_at(Listener& listener) {
  const int rail = listener.socket.rail;
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    const Nanoseconds now = loop_.clock().now();
    const auto oldest = in_the_way();
    const Nanoseconds room_at =
        oldest == accepted_.end() ? 0 : oldest->handshake->since() + kStrangersStay;
    if (room_at > now) return pause(listener, room_at);
    const int fd = accept4(listener.socket.fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      admit(rail, Descriptor(fd));
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN) return;
    NEZHA_LOG(debug, "tcp", "rail %d cannot accept a connection now: %s", rail, std::strerror(errno));
    return pause(listener, now + kShortagePause);
  }
}

// What is in its queue would wake the loop again and again.
void Connector::pause(Listener& listener, Nanoseconds until) {
  loop_.remove(listener.socket.fd.get(), &listener);
  listener.watched = false;
  listen_at_ = std::min(listen_at_, until);
}

void Connector::resume_listening(Nanoseconds now) {
  if (!is_past(listen_at_, now)) return;
  listen_at_ = kNever;
  for (Listener& each : listeners_) {
    if (!each.watched) each.watched = loop_.add(each.socket.fd.get(), EPOLLIN, &each).is_ok();
    if (!each.watched) listen_at_ = now + kShortagePause;
  }
}

void Connector::admit(int rail, Descriptor fd) {
  const Nanoseconds now = loop_.clock().now();
  if (const auto oldest = in_the_way(); oldest != accepted_.end()) {
    refusals_.note(*oldest->handshake, kCrowdedOut, now);
    drop(*oldest);
  }
  auto handshake = std::make_unique<Handshake>(identity_, std::move(fd), rail, now);
  Attempt& attempt = add(accepted_, Kind::accepted);
  attempt.handshake = std::move(handshake);
  attempt.deadline = attempt.handshake->deadline();
  watch(attempt);
}

void Connector::take_over(std::unique_ptr<Handshake> member) {
  const Nanoseconds now = loop_.clock().now();
  Attempt& attempt = add(accepted_, Kind::accepted);
  attempt.handshake = std::move(member);
  settle(attempt, now);
}

std::list<Connector::Attempt>::iterator Connector::in_the_way() {
  return oldest_in_the_way(accepted_, strangers_max_,
                           [](const Attempt& each) { return !each.member; });
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

void Connector::probe(const Path& path, Nanoseconds patience) { start(Kind::probe, path, 0, patience); }

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
    const bool starved = why.code() == Code::exhausted;
    return finish(attempt, false, starved ? DialOutcome::starved : outcome_of_errno(why.os_errno),
                  why.message());
  }
  if (attempt.kind == Kind::probe && !opener_.ends_unheard()) {
    attempt.probe_fd = std::move(*fd);
    return watch(attempt);
  }
  attempt.handshake = std::make_unique<Handshake>(identity_, std::move(*fd), path.peer, path.rail,
                                                  path.peer_rail, path.lane, attempt.epoch, now,
                                                  attempt.deadline);
  if (attempt.kind == Kind::probe) attempt.handshake->ask_only();
  settle(attempt, now);
}

void Connector::dial_again(Nanoseconds now) {
  for (auto it = dialled_.begin(); it != dialled_.end();) {
    Attempt& attempt = *it++;
    if (is_past(attempt.dial_at, now)) start_dial(attempt);
  }
}

void Connector::watch(Attempt& attempt) {
  const auto wanted = attempt.handshake ? static_cast<uint32_t>(attempt.handshake->poll_events())
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

void Connector::unwatch(Attempt& attempt) {
  if (attempt.watched_for != 0) loop_.remove(attempt.descriptor(), &attempt);
  attempt.watched_for = 0;
}

void Connector::advance(Attempt& attempt, uint32_t epoll_events) {
  if (!attempt.handshake) return advance_probe(attempt);
  const Nanoseconds now = loop_.clock().now();
  // Of the events that poll and epoll share, the values are the same.
  attempt.handshake->on_poll(static_cast<short>(epoll_events & 0xff), now);
  settle(attempt, now);
}

void Connector::advance_probe(Attempt& attempt) {
  const int number = dial_error(attempt.probe_fd.get());
  finish(attempt, number == 0, outcome_of_errno(number), "");
}

void Connector::settle(Attempt& attempt, Nanoseconds now) {
  Handshake& handshake = *attempt.handshake;
  if (handshake.is_dialler() && handshake.state() == Handshake::State::tested && pass(attempt)) return;
  const bool alive = handshake.state() != Handshake::State::failed;
  if (attempt.kind == Kind::accepted && alive && handshake.is_authenticated() && !attempt.member) {
    attempt.member = true;
    attempt.deadline = now + kMemberTimeout;
    // As many rounds as Wireup makes.
    if (attempt.waits_for_choice(handshake.epoch())) attempt.deadline += 3 * request_.probe_timeout;
  }
  switch (handshake.state()) {
    case Handshake::State::failed:
      return fail_handshake(attempt, now);
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

bool Connector::pass(Attempt& attempt) {
  if (attempt.kind == Kind::probe) {
    finish(attempt, true, DialOutcome::failed, "");
    return true;
  }
  if (!attempt.waits_for_choice(attempt.epoch)) {
    attempt.handshake->decide(true, 1);
  } else if (attempt.deadline != kNever) {
    attempt.deadline = kNever;  // it waits for the other rails of the pair, which have deadlines
    chooser_->on_tested(attempt.path);
  }
  return false;
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

// The loop asks us only while there is something to ask for.
void Connector::look_for_polled() {
  const auto is_polled = [](const Attempt& each) { return each.is_polled(); };
  const bool wanted = std::any_of(dialled_.begin(), dialled_.end(), is_polled) ||
                      std::any_of(accepted_.begin(), accepted_.end(), is_polled);
  if (wanted == polling_) return;
  polling_ = wanted;
  wanted ? loop_.add_polled(this) : loop_.remove_polled(this);
}

void Connector::fail_handshake(Attempt& attempt, Nanoseconds now) {
  const Handshake& handshake = *attempt.handshake;
  if (attempt.kind == Kind::accepted) {
    refusals_.note(handshake, now);
    return drop(attempt);
  }
  if (attempt.kind != Kind::probe && handshake.was_turned_away() &&
      now + kRedialPause < attempt.deadline) {
    unwatch(attempt);
    attempt.reason = handshake.reason();
    attempt.handshake.reset();
    attempt.dial_at = now + kRedialPause;
    return;
  }
  const bool failed = handshake.state() == Handshake::State::failed;
  // What it was told before says more than that the time was over when it dialled again.
  const bool cut_short = !handshake.was_answered() && !attempt.reason.empty();
  finish(attempt, false,
         handshake.was_answered() ? DialOutcome::failed : outcome_of_errno(handshake.dial_errno()),
         cut_short ? std::string(attempt.reason)
         : failed  ? handshake.reason()
                   : "connected, but the connection was not taken over in time");
}

void Connector::finish(Attempt& attempt, bool succeeded, DialOutcome outcome, std::string reason) {
  unwatch(attempt);
  attempt.succeeded = succeeded;
  attempt.outcome = outcome;
  attempt.reason = std::move(reason);
  const bool is_call = attempt.handshake && attempt.handshake->epoch() == wire::kRequestEpoch;
  if (!succeeded || attempt.kind == Kind::probe || is_call) {
    if (attempt.handshake) attempt.handshake->close();
    attempt.probe_fd.reset(-1);
  }
  Attempts& list = attempt.kind == Kind::accepted ? accepted_ : dialled_;
  finished_.splice(finished_.end(), list, attempt.self);
}

void Connector::drop(Attempt& attempt) {
  unwatch(attempt);
  (attempt.kind == Kind::accepted ? accepted_ : dialled_).erase(attempt.self);
}

// ----------------------------------------------------------------------------------- events

void Connector::run(Nanoseconds now) {
  resume_listening(now);
  dial_again(now);
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
    attempt.handshake->on_time(now);
    fail_handshake(attempt, now);
  }
}

void Connector::raise(Attempt& attempt) {
  if (attempt.kind == Kind::probe) return joins_.on_probed(attempt.path, answer_to(attempt));
  if (!attempt.succeeded) {
    return joins_.on_dial_failed(attempt.path, attempt.outcome, attempt.reason);
  }
  const Handshake& handshake = *attempt.handshake;
  if (handshake.epoch() == wire::kRequestEpoch) {
    if (chooser_ == nullptr) return;
    if (handshake.is_dialler()) return chooser_->on_request_heard(attempt.path);
    return chooser_->on_connection_requested(handshake.peer());
  }
  const bool chosen = attempt.waits_for_choice(handshake.epoch());
  if (chosen && !handshake.is_dialler()) chooser_->on_chosen(handshake.peer(), handshake.total());
  auto connection = make_connection(request_, opener_, home_, *attempt.handshake);
  if (connection) return joins_.on_joined(std::move(*connection));
  if (chosen) {
    return chooser_->on_unusable(path_of(handshake), connection.status());
  }
  const std::string why = connection.status().message();
  if (attempt.kind == Kind::dialled) {
    return joins_.on_dial_failed(attempt.path, DialOutcome::failed, why);
  }
  NEZHA_LOG(warn, "tcp", "rail %d: a connection of rank %d was made again and cannot be used: %s",
            attempt.handshake->rail(), attempt.handshake->peer(), why.c_str());
}

Probed Connector::answer_to(const Attempt& probe) const {
  if (probe.succeeded) return probe.handshake ? Probed::process : Probed::host;
  // Whoever accepted and said nothing stands still.
  if (probe.outcome == DialOutcome::failed) return Probed::host;
  return probe.outcome == DialOutcome::refused ? Probed::refusal : Probed::nothing;
}

Nanoseconds Connector::next_wakeup() const {
  if (!finished_.empty() || !carriers_.empty() || devices_changed_) return 0;
  Nanoseconds soonest = listen_at_;
  for (const Attempts* list : {&dialled_, &accepted_}) {
    for (const Attempt& each : *list) soonest = std::min({soonest, each.deadline, each.dial_at});
  }
  return stopped_ ? kNever : soonest;
}

}  // namespace nezha::transport
