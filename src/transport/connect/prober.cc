#include "transport/connect/prober.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "transport/kernel_answers.h"
#include "transport/rail_socket.h"

namespace nezha::transport {

bool is_own_want(int os_errno) {
  switch (os_errno) {
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
    case EAGAIN:
    case EADDRNOTAVAIL:
    case EADDRINUSE:
    case EPERM:
    case EACCES:
      return true;
    default:
      return false;
  }
}

namespace {

Probed probed_of(int os_errno) {
  if (os_errno == ECONNREFUSED) return Probed::refusal;
  return is_own_want(os_errno) ? Probed::untried : Probed::nothing;
}

}  // namespace

Prober::Probe* Prober::find(const Path& path) {
  const auto found = std::find_if(probes_.begin(), probes_.end(),
                                  [&](const Probe& probe) { return probe.path == path; });
  return found == probes_.end() ? nullptr : &*found;
}

void Prober::ask(const Path& path, Nanoseconds patience) {
  Probe* const held = find(path);
  if (held == nullptr) return dial(path, patience);
  held->held_until = loop_.clock().now() + kHeldFor;
  // A Hello that was answered is sent again, on a new connection: the process may have stopped.
  const bool is_over = has_ended(held->descriptor()) ||
                       (held->handshake && held->handshake->state() == Handshake::State::tested);
  if (is_over) {
    drop(*held);
    return dial(path, patience);
  }
  answers_.emplace_back(path, result_of(*held));
}

void Prober::dial(const Path& path, Nanoseconds patience) {
  auto fd = opener_.dial(request_, path);
  if (!fd) {
    // A missing common address family (`unsupported`) says nothing about the peer either.
    const Status& why = fd.status();
    const bool is_want = why.code() == Code::exhausted || why.code() == Code::unsupported;
    answers_.emplace_back(path, is_want ? Probed::untried : probed_of(why.os_errno));
    return;
  }
  Probe& probe = probes_.emplace_back(*this);
  probe.self = std::prev(probes_.end());
  probe.path = path;
  const Nanoseconds now = loop_.clock().now();
  probe.answer_by = now + patience;
  if (!opener_.ends_unheard()) {
    probe.fd = std::move(*fd);
    return watch(probe, EPOLLOUT);
  }
  probe.handshake = std::make_unique<Handshake>(identity_, std::move(*fd), path.peer, path.rail,
                                                path.peer_rail, path.lane, 0, now, probe.answer_by);
  probe.handshake->ask_only();
  watch(probe, static_cast<uint32_t>(probe.handshake->poll_events()));
}

void Prober::watch(Probe& probe, uint32_t events) {
  if (events == probe.watched_for) return;
  Status watched = Status::ok();
  if (events == 0) {
    loop_.remove(probe.descriptor(), &probe);
  } else if (probe.watched_for == 0) {
    watched = loop_.add(probe.descriptor(), events, &probe);
  } else {
    watched = loop_.modify(probe.descriptor(), events, &probe);
  }
  probe.watched_for = watched ? events : 0;
  if (watched) return;
  answer(probe, Probed::untried);
  drop(probe);
}

void Prober::advance(Probe& probe, uint32_t epoll_events) {
  if (probe.handshake) return advance_hello(probe, epoll_events);
  const int os_errno = dial_error(probe.fd.get());
  if (os_errno == 0) return accept(probe);
  answer(probe, probed_of(os_errno));
  drop(probe);
}

void Prober::advance_hello(Probe& probe, uint32_t epoll_events) {
  Handshake& handshake = *probe.handshake;
  // Events that poll and epoll share have the same values.
  handshake.on_poll(static_cast<short>(epoll_events & 0xff), loop_.clock().now());
  if (handshake.has_failed()) {
    // A peer that accepted and ended the connection without an answer made room for another one.
    answer(probe, handshake.was_answered() ? Probed::host : probed_of(handshake.dial_errno()));
    return drop(probe);
  }
  if (handshake.state() == Handshake::State::tested) {
    answer(probe, Probed::process);
    return watch(probe, 0);
  }
  if (handshake.was_answered() && !probe.accepted) ask_kernel(handshake.fd());
  probe.accepted = handshake.was_answered();
  watch(probe, static_cast<uint32_t>(handshake.poll_events()));
}

// From here on the peer's kernel is asked.
void Prober::accept(Probe& probe) {
  ask_kernel(probe.fd.get());
  probe.accepted = true;
  watch(probe, 0);
  answer(probe, Probed::host);
}

Probed Prober::result_of(const Probe& probe) const {
  return since_kernel_answered(probe.descriptor()) <= kAnsweredWithin ? Probed::host : Probed::nothing;
}

void Prober::answer(Probe& probe, Probed probed) {
  if (probe.answer_by == kNever) return;
  probe.answer_by = kNever;
  probe.held_until = loop_.clock().now() + kHeldFor;
  answers_.emplace_back(probe.path, probed);
}

void Prober::drop(Probe& probe) {
  if (probe.watched_for != 0) loop_.remove(probe.descriptor(), &probe);
  probes_.erase(probe.self);
}

void Prober::run(Nanoseconds now, JoinEvents& events) {
  for (auto it = probes_.begin(); it != probes_.end();) {
    Probe& probe = *it++;
    if (now >= probe.answer_by) {
      answer(probe, probe.accepted ? Probed::host : Probed::nothing);
      if (!probe.accepted) drop(probe);
    } else if (now >= probe.held_until) {
      drop(probe);
    }
  }
  // Questions that an event asks are answered in the next turn, so that this one ends.
  const auto told = std::exchange(answers_, {});
  for (const auto& [path, probed] : told) events.on_probed(path, probed);
}

Nanoseconds Prober::next_wakeup() const {
  if (!answers_.empty()) return 0;
  Nanoseconds soonest = kNever;
  for (const Probe& probe : probes_) soonest = std::min({soonest, probe.answer_by, probe.held_until});
  return soonest;
}

void Prober::stop() {
  while (!probes_.empty()) drop(probes_.front());
  answers_.clear();
}

}  // namespace nezha::transport
