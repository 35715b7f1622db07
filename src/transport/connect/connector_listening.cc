// Connector: where it listens, on rails that come later too, and whom it accepts there.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "transport/connect/connector.h"
#include "transport/connect/strangers.h"

namespace nezha::transport {

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
    if (!listens) {  // the kernel tells of an address again when it can be used
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
  RailAddress& known = rails[static_cast<size_t>(rail)];
  // The peer says this on every connection; a rail's address does not change while the job runs.
  if (known.is_missing() && known.transport == placed.transport) known = std::move(placed);
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

// The loop stops watching the listener, whose waiting connections would wake it again and again.
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
    refusals_.record(*oldest->handshake, kCrowdedOut, now);
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

bool Connector::is_accepting() const {
  const auto is_coming = [](const Attempt& each) {
    return each.kind == Kind::accepted && (each.member || each.succeeded);
  };
  return std::any_of(accepted_.begin(), accepted_.end(), is_coming) ||
         std::any_of(finished_.begin(), finished_.end(), is_coming);
}

std::list<Connector::Attempt>::iterator Connector::in_the_way() {
  return oldest_in_the_way(accepted_, strangers_max_,
                           [](const Attempt& each) { return !each.member; });
}

}  // namespace nezha::transport
