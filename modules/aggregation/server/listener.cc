#include "aggregation/server/listener.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/connect/strangers.h"
#include "wire/little_endian.h"

namespace nezha::aggregation {

Result<std::unique_ptr<Listener>> Listener::open(progress::Loop& loop, Descriptor socket,
                                                   const wire::Secret& key,
                                                   const std::string& topology,
                                                   Admission& admission) {
  std::array<std::byte, sizeof(uint32_t)> length;
  wire::store_le(length.data(), static_cast<uint32_t>(topology.size()));
  std::string answer(reinterpret_cast<const char*>(length.data()), length.size());
  std::unique_ptr<Listener> listener(
      new Listener(loop, std::move(socket), key, answer + topology, admission));
  NEZHA_RETURN_IF_ERROR(listener->watch());
  return listener;
}

Listener::~Listener() {
  if (watched_) loop_.remove(socket_.get(), this);
  for (PendingConnection& peer : pending_) loop_.remove(peer.descriptor(), &peer);
}

Status Listener::watch() {
  const Status added = loop_.add(socket_.get(), EPOLLIN, this);
  watched_ = added.is_ok();
  return added;
}

void Listener::on_ready(uint32_t) {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    const Nanoseconds now = loop_.clock().now();
    if (const Nanoseconds until = room_at(); until > now) return pause(until);
    const int fd = accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      add(Descriptor(fd));
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN) return;
    return pause(now + kShortagePause);
  }
}

// When the next connection may be accepted. As at a rank's rails, the oldest connection is replaced
// when it has had its time.
Nanoseconds Listener::room_at() const {
  if (pending_.size() < kPendingMax) return 0;
  return pending_.front().deadline - kTimeout + transport::kStrangersStay;
}

// Watches the listening socket no more until then: a connection in its backlog would wake the loop
// again and again.
void Listener::pause(Nanoseconds until) {
  loop_.remove(socket_.get(), this);
  watched_ = false;
  reopen_at_ = until;
}

void Listener::add(Descriptor fd) {
  ++counters_.accepted;
  if (pending_.size() == kPendingMax) {
    ++counters_.expired;
    close(pending_.front());
  }
  const Nanoseconds deadline = loop_.clock().now() + kTimeout;
  PendingConnection& peer = pending_.emplace_back(*this, std::move(fd), deadline);
  peer.self = std::prev(pending_.end());
  if (loop_.add(peer.fd.get(), EPOLLIN, &peer)) return;
  ++counters_.expired;
  pending_.erase(peer.self);
}

void Listener::advance(PendingConnection& peer, uint32_t epoll_events) {
  if (!peer.reply.empty()) return send_reply(peer);
  if (peer.handshake == nullptr) return read(peer);
  // poll and epoll have equal values for the events that they share.
  peer.handshake->on_poll(static_cast<short>(epoll_events & 0xff), loop_.clock().now());
  check_proof(peer);
}

void Listener::read(PendingConnection& peer) {
  const ssize_t got =
      recv(peer.fd.get(), peer.bytes.data() + peer.have, peer.bytes.size() - peer.have, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    ++counters_.expired;
    return close(peer);
  }
  peer.have += static_cast<size_t>(got);
  if (peer.have == peer.bytes.size()) check(peer);
}

void Listener::check(PendingConnection& peer) {
  const wire::Refusal wrong = check_ticket(peer.bytes, key_, &peer.ticket);
  // A peer of another protocol would not understand the refusal.
  if (wrong == wire::Refusal::bad_magic) {
    ++counters_.refused;
    return close(peer);
  }
  if (wrong != wire::Refusal::none) return refuse(peer, wrong);
  authenticate(peer);
}

void Listener::authenticate(PendingConnection& peer) {
  const wire::Refusal wrong = admission_.may_authenticate(peer.ticket, &peer.identity);
  if (wrong != wire::Refusal::none) return refuse(peer, wrong);
  peer.handshake = std::make_unique<transport::Handshake>(peer.identity, std::move(peer.fd), 0,
                                                       loop_.clock().now());
}

void Listener::check_proof(PendingConnection& peer) {
  transport::Handshake& handshake = *peer.handshake;
  if (handshake.has_failed()) {
    const bool is_refused = handshake.state() == transport::Handshake::State::refused;
    ++(is_refused ? counters_.refused : counters_.expired);
    return close(peer);
  }
  if (handshake.is_authenticated()) return accept_member(peer);
  if (!loop_.modify(handshake.fd(), static_cast<uint32_t>(handshake.poll_events()), &peer)) close(peer);
}

void Listener::accept_member(PendingConnection& peer) {
  if (peer.ticket.nodes == 0) {
    ++counters_.answered;
    peer.fd = Descriptor(peer.handshake->release_stream()->release_fd());
    peer.handshake.reset();
    peer.reply = answer_;
    return send_reply(peer);
  }
  // The new owner of the connection watches its events.
  loop_.remove(peer.handshake->fd(), &peer);
  const wire::Refusal full = admission_.admit(peer.ticket, peer.handshake);
  if (full != wire::Refusal::none) {
    ++counters_.refused;
    if (full == wire::Refusal::replayed) ++counters_.replayed;
  }
  pending_.erase(peer.self);
}

void Listener::refuse(PendingConnection& peer, wire::Refusal why) {
  ++counters_.refused;
  if (why == wire::Refusal::replayed) ++counters_.replayed;
  std::array<std::byte, wire::kChallengeBytes> bytes;
  wire::make_refusal(why, bytes);
  std::memcpy(peer.refusal.data(), bytes.data(), bytes.size());
  peer.reply = {peer.refusal.data(), peer.refusal.size()};
  send_reply(peer);
}

// Closing a connection with unread bytes would discard the reply, so the peer closes first.
void Listener::send_reply(PendingConnection& peer) {
  std::array<char, 1024> rest;
  const ssize_t received = recv(peer.fd.get(), rest.data(), rest.size(), 0);
  if (received == 0 || (received < 0 && errno != EAGAIN && errno != EINTR)) return close(peer);
  if (peer.sent == peer.reply.size()) return;
  const std::string_view left = peer.reply.substr(peer.sent);
  const ssize_t sent = send(peer.fd.get(), left.data(), left.size(), MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN && errno != EINTR) return close(peer);
  peer.sent += static_cast<size_t>(std::max<ssize_t>(sent, 0));
  const bool all = peer.sent == peer.reply.size();
  if (all) shutdown(peer.fd.get(), SHUT_WR);
  if (!loop_.modify(peer.fd.get(), all ? EPOLLIN : EPOLLIN | EPOLLOUT, &peer)) close(peer);
}

void Listener::close(PendingConnection& peer) {
  loop_.remove(peer.descriptor(), &peer);
  pending_.erase(peer.self);
}

void Listener::run(Nanoseconds now) {
  while (!pending_.empty() && now >= pending_.front().deadline) {
    if (pending_.front().reply.empty()) ++counters_.expired;
    close(pending_.front());
  }
  if (now < reopen_at_) return;
  reopen_at_ = watch() ? kNever : now + kShortagePause;
}

Nanoseconds Listener::next_wakeup() const {
  return pending_.empty() ? reopen_at_ : std::min(reopen_at_, pending_.front().deadline);
}

}  // namespace nezha::aggregation
