#include "transport/shm/shm_wire.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace nezha::transport {

// The maker of the segment writes the first ring.
ShmWire::ShmWire(progress::Loop& loop, ShmChannel channel, std::string name)
    : StreamWire(std::move(name)), loop_(loop), channel_(std::move(channel)),
      writer_(channel_.segment->ring(channel_.is_maker ? 0 : 1)),
      reader_(channel_.segment->ring(channel_.is_maker ? 1 : 0)) {}

Status ShmWire::start(WireEvents& events) {
  events_ = &events;
  heard_at_ = loop_.clock().now();
  NEZHA_RETURN_IF_ERROR(loop_.add(channel_.socket.get(), EPOLLIN | EPOLLRDHUP, this));
  loop_.add_polled(this);
  return Status::ok();
}

// ---------------------------------------------------------------------------------------- sending

size_t ShmWire::send(std::span<WorkRequest* const> frames) {
  if (!writer_.refresh()) {
    break_ring();
    return 0;
  }
  size_t taken = 0;
  push_rest();
  while (held_bytes_ == 0 && taken < frames.size() && writer_.room() > 0) {
    const WorkRequest& frame = *frames[taken++];
    std::array<iovec, 3> pieces;
    const size_t done = put(pieces.data(), pieces_of(frame, pieces.data()));
    if (Status status = on_sent(frame, done); !status) {
      events_->on_broken(status);
      return taken;
    }
  }
  show();
  blocked_ = held_bytes_ > 0 || taken < frames.size();
  return taken;
}

void ShmWire::push_rest() {
  if (held_bytes_ == 0) return;
  std::array<iovec, 3> pieces;
  held_bytes_ -= put(pieces.data(), rest(pieces.data()));
}

size_t ShmWire::put(const iovec* pieces, size_t count) {
  size_t done = 0;
  for (size_t i = 0; i < count; ++i) {
    for (size_t at = 0; at < pieces[i].iov_len;) {
      const size_t size = std::min({pieces[i].iov_len - at, writer_.room(), kPiece});
      if (size == 0) return done;
      writer_.put(static_cast<const std::byte*>(pieces[i].iov_base) + at, size);
      at += size;
      done += size;
      unshown_ += size;
      if (unshown_ >= kPiece) show();
    }
  }
  return done;
}

void ShmWire::show() {
  if (std::exchange(unshown_, 0) > 0 && writer_.publish()) ring();
}

// A send may fail: a full socket wakes the peer already, and the loop tells of a closed one.
void ShmWire::ring() {
  const std::byte bell{};
  ++send_calls_;
  (void)!::send(channel_.socket.get(), &bell, sizeof(bell), MSG_DONTWAIT | MSG_NOSIGNAL);
}

uint64_t ShmWire::backlog_bytes() {
  if (is_open()) writer_.refresh();
  return held_bytes_ + writer_.unread();
}

// -------------------------------------------------------------------------------------- receiving

bool ShmWire::receive() {
  size_t total = 0;
  size_t frames = 0;
  while (is_open() && total < kReceiveBytesPerTurn && frames < kFramesPerTurn) {
    if (reader_.available() == 0 && !reader_.refresh()) {
      break_ring();
      return true;
    }
    if (reader_.available() == 0) break;
    const size_t size = read_piece();
    total += size;
    kept_ += size;
    if (kept_ >= kPiece) give_room();
    if (arrival_ == nullptr && done_ == wire::kHeaderBytes) ++frames;
    if (!advance()) return true;
  }
  if (total == 0) return false;
  heard_at_ = loop_.clock().now();
  give_room();
  return true;
}

size_t ShmWire::read_piece() {
  std::byte* to = header_.data() + done_;
  size_t wanted = wire::kHeaderBytes - done_;
  if (arrival_ != nullptr && done_ < arrival_->length) {
    to = arrival_->destination == nullptr ? nullptr : arrival_->destination + done_;
    wanted = std::min(arrival_->length - done_, kPiece);
  } else if (arrival_ != nullptr) {
    to = arrival_->trailer.data() + (done_ - arrival_->length);
    wanted = arrival_->length + arrival_->trailer_length - done_;
  }
  const size_t size = std::min(wanted, reader_.available());
  reader_.get(to, size);
  done_ += size;
  return size;
}

bool ShmWire::advance() {
  if (arrival_ == nullptr) {
    if (done_ < wire::kHeaderBytes) return true;
    done_ = 0;
    arrival_ = events_->on_header(header_.data());
    if (arrival_ == nullptr) return false;
  }
  if (done_ < size_t{arrival_->length} + arrival_->trailer_length) return true;
  done_ = 0;
  return events_->on_arrived(*std::exchange(arrival_, nullptr));
}

void ShmWire::give_room() {
  if (std::exchange(kept_, 0) > 0 && is_open() && reader_.publish()) ring();
}

Nanoseconds ShmWire::heard_at() {
  if (is_open() && reader_.has_news()) heard_at_ = loop_.clock().now();
  return heard_at_;
}

// ------------------------------------------------------------------------------- the loop's turns

void ShmWire::on_ready(uint32_t) {
  std::array<std::byte, 64> bells;
  const ssize_t got = recv(channel_.socket.get(), bells.data(), bells.size(), MSG_DONTWAIT);
  ++receive_calls_;
  peer_ended_ |= got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
  poll();
}

bool ShmWire::poll() {
  if (std::exchange(asleep_, false)) reader_.wake();
  // Bytes that the peer wrote before it ended are still read, unless it abandoned them.
  const bool abandoned = reader_.is_abandoned();
  bool any = !abandoned && receive();
  if (is_open() && blocked_) any |= look_for_room();
  if (is_open() && (abandoned || (peer_ended_ && reader_.available() == 0))) {
    any = true;
    events_->on_broken(error(Code::peer_lost, "connection %s was closed by the peer", name_.c_str()));
  }
  return any;
}

bool ShmWire::look_for_room() {
  if (!writer_.refresh()) {
    break_ring();
    return true;
  }
  if (writer_.room() < kWorthwhile) return false;
  blocked_ = false;
  events_->on_ready();
  return true;
}

progress::Polled::Sleep ShmWire::may_sleep() {
  asleep_ = true;
  reader_.sleep();
  if (blocked_) writer_.wait();
  // The signs are set before the last look: the peer rings for everything that comes after them.
  const bool valid = reader_.refresh() && writer_.refresh();
  const bool has_room = blocked_ && writer_.room() >= kWorthwhile;
  return valid && reader_.available() == 0 && !has_room ? Sleep::until_woken : Sleep::no;
}

// ----------------------------------------------------------------------------------------- ending

void ShmWire::break_ring() {
  events_->on_broken(error(Code::internal, "the peer broke the protocol on %s: it wrote an impossible "
                           "position into the shared memory", name_.c_str()));
}

void ShmWire::close(bool in_order) {
  if (!is_open()) return;
  // Bytes of a connection that was given up must not arrive later.
  if (!in_order) writer_.abandon();
  loop_.remove(channel_.socket.get(), this);
  loop_.remove_polled(this);
  channel_.socket.reset(-1);
  channel_.segment.reset();
  arrival_ = nullptr;
  held_bytes_ = 0;
}

}  // namespace nezha::transport
