#include "transport/tcp/tcp_wire.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "transport/kernel_answers.h"
#include "transport/rail_socket.h"

namespace nezha::transport {
namespace {

// Unsent bytes in a socket: they can no longer be given to another rail.
constexpr int kUnsentBytesMax = 128 * 1024;

}  // namespace

TcpWire::TcpWire(progress::Loop& loop, std::unique_ptr<TcpStream> stream, std::string name,
                 TcpWireOptions options)
    : StreamWire(std::move(name)), loop_(loop), options_(std::move(options)),
      stream_(std::move(stream)) {}

Status TcpWire::start(WireEvents& events) {
  events_ = &events;
  heard_at_ = loop_.clock().now();
  const int fd = stream_->fd();
  tune(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  const Nanoseconds silence_ms =
      (std::min(options_.peer_deadline, kNever - kBeyondDeadline) + kBeyondDeadline) / kMillisecond;
  tune(fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
             static_cast<int>(std::min<Nanoseconds>(silence_ms, std::numeric_limits<int>::max())));
  tune(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, kUnsentBytesMax);
  const std::string& control = options_.congestion_control;
  if (!control.empty() && setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, control.data(),
                                     static_cast<socklen_t>(control.size())) != 0) {
    return error(Code::invalid_argument, "congestion_control=%s is not available on this host: %s; "
                 "see net.ipv4.tcp_allowed_congestion_control", control.c_str(),
                 std::strerror(errno)).with_errno(errno);
  }
  stream_->begin_bulk();
  return loop_.add(fd, EPOLLIN | EPOLLRDHUP, this);
}

// ---------------------------------------------------------------------------------------- sending

size_t TcpWire::send(std::span<WorkRequest* const> frames) {
  if (stream_->wants_write() && !push_stream()) return 0;
  Vectors vectors;
  size_t count = 0;
  if (held_bytes_ > 0) count = rest(vectors.data());
  size_t asked = held_bytes_;
  for (const WorkRequest* frame : frames) {
    count += pieces_of(*frame, &vectors[count]);
    asked += frame_bytes(*frame);
  }
  size_t sent = 0;
  if (asked > 0) {
    const ssize_t answer = stream_->send(vectors.data(), count);
    ++send_calls_;
    if (answer < 0 && errno != EAGAIN) {
      fail("send", errno);
      return 0;
    }
    sent = answer < 0 ? 0 : static_cast<size_t>(answer);
  }
  const size_t of_rest = std::min(sent, static_cast<size_t>(held_bytes_));
  held_bytes_ -= of_rest;
  const size_t taken = account(frames, sent - of_rest);
  if (stream_ == nullptr) return taken;
  want_writable(sent < asked || stream_->wants_write());
  return taken;
}

// Hands the kernel the bytes that the stream holds back; true when all of them have gone.
bool TcpWire::push_stream() {
  if (stream_->push()) return true;
  if (errno == EAGAIN) want_writable(true);
  else fail("send", errno);
  return false;
}

size_t TcpWire::account(std::span<WorkRequest* const> frames, size_t bytes) {
  size_t taken = 0;
  for (; taken < frames.size() && bytes > 0; ++taken) {
    const WorkRequest& frame = *frames[taken];
    const size_t sent = std::min(bytes, frame_bytes(frame));
    bytes -= sent;
    if (Status status = on_sent(frame, sent); !status) events_->on_broken(status);
  }
  return taken;
}

void TcpWire::want_writable(bool wanted) {
  if (wanted == writable_wanted_) return;
  writable_wanted_ = wanted;
  const uint32_t events = EPOLLIN | EPOLLRDHUP | (wanted ? EPOLLOUT : 0u);
  if (Status status = loop_.modify(stream_->fd(), events, this); !status) events_->on_broken(status);
}

uint64_t TcpWire::backlog_bytes() {
  int in_kernel = 0;
  ioctl(stream_->fd(), SIOCOUTQ, &in_kernel);
  return held_bytes_ + stream_->unsent_bytes() + static_cast<uint64_t>(std::max(in_kernel, 0));
}

// -------------------------------------------------------------------------------------- receiving

void TcpWire::on_ready(uint32_t epoll_events) {
  if (epoll_events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) receive();
  // To go on reading, a TLS stream may have to write.
  const bool writes = stream_ != nullptr && ((epoll_events & EPOLLOUT) != 0 || stream_->wants_write());
  if (writes) events_->on_ready();
}

void TcpWire::receive() {
  size_t total = 0;
  frames_in_turn_ = 0;
  while (stream_ != nullptr) {
    const bool more = total < kReceiveBytesPerTurn && frames_in_turn_ < kFramesPerTurn;
    // Bytes that have left the kernel would not wake the loop again.
    if (!more && !stream_->has_buffered_input()) break;
    std::array<iovec, 2> vectors;
    size_t count = 0;
    size_t direct = 0;
    const size_t asked = aim(vectors, &count, &direct);
    const auto source = more ? TcpStream::Source::network : TcpStream::Source::buffer;
    const ssize_t answer = stream_->receive(vectors.data(), count, source);
    ++receive_calls_;
    if (answer < 0) {
      if (errno != EAGAIN) return fail("receive", errno);
      if (stream_->take_arrival()) heard_at_ = loop_.clock().now();
      break;
    }
    if (answer == 0) {
      return events_->on_broken(error(Code::peer_lost, "connection %s was closed by the peer",
                                      name_.c_str()));
    }
    const auto received = static_cast<size_t>(answer);
    heard_at_ = loop_.clock().now();
    unread_ = 0;
    total += received;
    payload_done_ += std::min(received, direct);
    buffer_end_ += received - std::min(received, direct);
    if (!consume_buffer()) return;
    if (received < asked) break;  // drained: no need to hear EAGAIN
  }
  if (stream_ != nullptr) want_bytes();
}

// The buffer is empty here, or holds the beginning of a header or a trailer.
size_t TcpWire::aim(std::array<iovec, 2>& vectors, size_t* count, size_t* direct) {
  size_t ahead = kReceiveBuffer - buffer_end_;
  const size_t left = arrival_ == nullptr ? 0 : arrival_->length - payload_done_;
  if (left > 0 && arrival_->destination != nullptr) {
    *direct = left;
    vectors[(*count)++] = {arrival_->destination + payload_done_, left};
    if (left >= kLongPayload) ahead = kReadAheadBehindPayload;
  }
  vectors[(*count)++] = {buffer_.data() + buffer_end_, ahead};
  return *direct + ahead;
}

// A shaped or busy network delivers a chunk in many pieces, and each would cost a wake-up.
void TcpWire::want_bytes() {
  if (stream_->has_records()) return;  // a record is of use only as a whole, and smaller
  size_t wanted = 1;
  if (arrival_ != nullptr && arrival_->length - payload_done_ >= kLongPayload) {
    wanted = std::min(arrival_->length - payload_done_, kLowWaterMax);
  }
  // A mark above the bytes to come would never be reached; one a little below costs a wake-up more.
  if (low_water_ <= wanted && wanted < 2 * low_water_) return;
  tune(stream_->fd(), SOL_SOCKET, SO_RCVLOWAT, static_cast<int>(wanted));
  low_water_ = wanted;
}

bool TcpWire::consume_buffer() {
  while (true) {
    if (arrival_ != nullptr) {
      take_payload();
      if (payload_done_ < arrival_->length) break;
      if (buffer_end_ - buffer_begin_ < arrival_->trailer_length) break;
      std::memcpy(arrival_->trailer.data(), buffer_.data() + buffer_begin_, arrival_->trailer_length);
      buffer_begin_ += arrival_->trailer_length;
      if (!events_->on_arrived(*std::exchange(arrival_, nullptr))) return false;
    }
    if (buffer_end_ - buffer_begin_ < wire::kHeaderBytes) break;
    const std::byte* header = buffer_.data() + buffer_begin_;
    buffer_begin_ += wire::kHeaderBytes;
    payload_done_ = 0;
    ++frames_in_turn_;
    arrival_ = events_->on_header(header);
    if (arrival_ == nullptr) return false;
  }
  // The bytes that are left, if any, begin a header or a trailer: move them to the front.
  const size_t left = buffer_end_ - buffer_begin_;
  if (buffer_begin_ > 0 && left > 0) {
    std::memmove(buffer_.data(), buffer_.data() + buffer_begin_, left);
  }
  buffer_begin_ = 0;
  buffer_end_ = left;
  return true;
}

void TcpWire::take_payload() {
  const size_t take = std::min(arrival_->length - payload_done_, buffer_end_ - buffer_begin_);
  if (take == 0) return;
  if (arrival_->destination != nullptr) {
    std::memcpy(arrival_->destination + payload_done_, buffer_.data() + buffer_begin_, take);
  }
  payload_done_ += take;
  buffer_begin_ += take;
}

Nanoseconds TcpWire::host_heard_at() {
  const Nanoseconds ago = stream_ == nullptr ? kNever : since_kernel_answered(stream_->fd());
  return ago == kNever ? heard_at() : std::max(heard_at(), loop_.clock().now() - ago);
}

// While a long payload arrives, the kernel wakes the loop only when much of it is there: bytes that
// the kernel holds count as heard.
Nanoseconds TcpWire::heard_at() {
  int unread = 0;
  if (stream_ != nullptr && low_water_ > 1 && ioctl(stream_->fd(), FIONREAD, &unread) == 0 &&
      unread > unread_) {
    unread_ = unread;
    heard_at_ = loop_.clock().now();
  }
  return heard_at_;
}

void TcpWire::fail(const char* what, int os_errno) {
  events_->on_broken(error(Code::peer_lost, "%s failed on %s: %s", what, name_.c_str(),
                           stream_->explain(os_errno).c_str()).with_errno(os_errno));
}

void TcpWire::close(bool in_order) {
  if (stream_ == nullptr) return;
  loop_.remove(stream_->fd(), this);
  // No linger: bytes of a connection that was given up must not arrive later.
  if (!in_order) {
    const linger hard{1, 0};
    setsockopt(stream_->fd(), SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
  }
  stream_.reset();
  arrival_ = nullptr;
  held_bytes_ = 0;
}

}  // namespace nezha::transport
