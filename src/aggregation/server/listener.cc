#include "aggregation/server/listener.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "wire/little_endian.h"

namespace nezha::server {

Result<std::unique_ptr<FrontDoor>> FrontDoor::open(progress::Loop& loop, Descriptor listener,
                                                   const wire::Secret& key,
                                                   const std::string& topology,
                                                   Admission& admission) {
  std::array<std::byte, sizeof(uint32_t)> length;
  wire::store_le(length.data(), static_cast<uint32_t>(topology.size()));
  std::string answer(reinterpret_cast<const char*>(length.data()), length.size());
  std::unique_ptr<FrontDoor> door(
      new FrontDoor(loop, std::move(listener), key, answer + topology, admission));
  NEZHA_RETURN_IF_ERROR(door->watch());
  return door;
}

FrontDoor::~FrontDoor() {
  if (watched_) loop_.remove(listener_.get(), this);
  for (Caller& caller : callers_) loop_.remove(caller.descriptor(), &caller);
}

Status FrontDoor::watch() {
  const Status added = loop_.add(listener_.get(), EPOLLIN, this);
  watched_ = added.is_ok();
  return added;
}

void FrontDoor::on_ready(uint32_t) {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    const int fd = accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      receive(Descriptor(fd));
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN) return;
    // The caller stays in the queue and would wake the loop again and again.
    loop_.remove(listener_.get(), this);
    watched_ = false;
    reopen_at_ = loop_.clock().now() + kShortagePause;
    return;
  }
}

void FrontDoor::receive(Descriptor fd) {
  ++counters_.accepted;
  if (callers_.size() == kStrangersMax) {
    ++counters_.expired;
    drop(callers_.front());
  }
  Caller& caller = callers_.emplace_back(*this, std::move(fd), loop_.clock().now() + kPatience);
  caller.self = std::prev(callers_.end());
  if (loop_.add(caller.fd.get(), EPOLLIN, &caller)) return;
  ++counters_.expired;
  callers_.erase(caller.self);
}

void FrontDoor::advance(Caller& caller, uint32_t epoll_events) {
  if (!caller.said.empty()) return speak(caller);
  if (caller.trial == nullptr) return read(caller);
  // Of the events that poll and epoll share, the values are the same.
  caller.trial->on_poll(static_cast<short>(epoll_events & 0xff), loop_.clock().now());
  look_at_proof(caller);
}

void FrontDoor::read(Caller& caller) {
  const ssize_t got =
      recv(caller.fd.get(), caller.bytes.data() + caller.have, caller.bytes.size() - caller.have, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    ++counters_.expired;
    return drop(caller);
  }
  caller.have += static_cast<size_t>(got);
  if (caller.have == caller.bytes.size()) judge(caller);
}

void FrontDoor::judge(Caller& caller) {
  const wire::Refusal wrong = wire::check_ticket(caller.bytes, key_, &caller.ticket);
  // Who speaks another protocol would not understand the answer.
  if (wrong == wire::Refusal::bad_magic) {
    ++counters_.refused;
    return drop(caller);
  }
  if (wrong != wire::Refusal::none) return refuse(caller, wrong);
  begin_proof(caller);
}

void FrontDoor::begin_proof(Caller& caller) {
  const wire::Refusal wrong = admission_.may_prove(caller.ticket, &caller.identity);
  if (wrong != wire::Refusal::none) return refuse(caller, wrong);
  caller.trial = std::make_unique<transport::Trial>(caller.identity, std::move(caller.fd), 0,
                                                       loop_.clock().now());
}

void FrontDoor::look_at_proof(Caller& caller) {
  transport::Trial& trial = *caller.trial;
  if (trial.state() == transport::Trial::State::failed) {
    ++(trial.has_refused() ? counters_.refused : counters_.expired);
    return drop(caller);
  }
  if (trial.is_authenticated()) return let_in(caller);
  if (!loop_.modify(trial.fd(), static_cast<uint32_t>(trial.poll_events()), &caller)) drop(caller);
}

void FrontDoor::let_in(Caller& caller) {
  if (caller.ticket.hubs == 0) {
    ++counters_.answered;
    caller.fd = Descriptor(caller.trial->release_stream()->release_fd());
    caller.trial.reset();
    caller.said = answer_;
    return speak(caller);
  }
  // Events belong to whoever takes the connection.
  loop_.remove(caller.trial->fd(), &caller);
  const wire::Refusal full = admission_.admit(caller.ticket, caller.trial);
  if (full != wire::Refusal::none) {
    ++counters_.refused;
    if (full == wire::Refusal::replayed) ++counters_.replayed;
  }
  callers_.erase(caller.self);
}

void FrontDoor::refuse(Caller& caller, wire::Refusal why) {
  ++counters_.refused;
  if (why == wire::Refusal::replayed) ++counters_.replayed;
  std::array<std::byte, wire::kChallengeBytes> bytes;
  wire::make_refusal(why, bytes);
  std::memcpy(caller.refusal.data(), bytes.data(), bytes.size());
  caller.said = {caller.refusal.data(), caller.refusal.size()};
  speak(caller);
}

// A connection that is closed with bytes unread would take the answer back: the caller closes first.
void FrontDoor::speak(Caller& caller) {
  std::array<char, 1024> rest;
  const ssize_t heard = recv(caller.fd.get(), rest.data(), rest.size(), 0);
  if (heard == 0 || (heard < 0 && errno != EAGAIN && errno != EINTR)) return drop(caller);
  if (caller.sent == caller.said.size()) return;
  const std::string_view left = caller.said.substr(caller.sent);
  const ssize_t sent = send(caller.fd.get(), left.data(), left.size(), MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN && errno != EINTR) return drop(caller);
  caller.sent += static_cast<size_t>(std::max<ssize_t>(sent, 0));
  const bool all = caller.sent == caller.said.size();
  if (all) shutdown(caller.fd.get(), SHUT_WR);
  if (!loop_.modify(caller.fd.get(), all ? EPOLLIN : EPOLLIN | EPOLLOUT, &caller)) drop(caller);
}

void FrontDoor::drop(Caller& caller) {
  loop_.remove(caller.descriptor(), &caller);
  callers_.erase(caller.self);
}

void FrontDoor::run(Nanoseconds now) {
  while (!callers_.empty() && now >= callers_.front().deadline) {
    if (callers_.front().said.empty()) ++counters_.expired;
    drop(callers_.front());
  }
  if (now < reopen_at_) return;
  reopen_at_ = watch() ? kNever : now + kShortagePause;
}

Nanoseconds FrontDoor::next_wakeup() const {
  return callers_.empty() ? reopen_at_ : std::min(reopen_at_, callers_.front().deadline);
}

}  // namespace nezha::server
