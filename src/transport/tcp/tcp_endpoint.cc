#include "transport/tcp/tcp_endpoint.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/check.h"
#include "wire/crc32c.h"
#include "wire/little_endian.h"

namespace nezha::transport {
namespace {

void set_option(int fd, int level, int name, int value) {
  // Tuning only: a kernel that refuses still moves the bytes.
  setsockopt(fd, level, name, &value, sizeof(value));
}

}  // namespace

TcpEndpoint::TcpEndpoint(progress::Loop& loop, ConnectionEvents& events,
                         std::unique_ptr<TcpStream> stream, std::string name)
    : loop_(loop), events_(events), stream_(std::move(stream)), name_(std::move(name)) {}

TcpEndpoint::~TcpEndpoint() {
  if (up_) loop_.remove(stream_->fd(), this);
}

Status TcpEndpoint::start(const TcpEndpointOptions& options) {
  const int fd = stream_->fd();
  heard_at_ = loop_.clock().now();
  ack_comms_.reserve(1);
  checksum_ = options.payload_checksum;
  control_frames_max_ = options.control_frames_max;
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kSilenceMaxMs);
  if (options.notsent_lowat_bytes > 0) {
    set_option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, static_cast<int>(options.notsent_lowat_bytes));
  }
  if (options.send_buffer_bytes > 0) {
    set_option(fd, SOL_SOCKET, SO_SNDBUF, static_cast<int>(options.send_buffer_bytes));
  }
  const std::string& control = options.congestion_control;
  if (!control.empty() && setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, control.data(),
                                     static_cast<socklen_t>(control.size())) != 0) {
    return error(Code::invalid_argument, "congestion_control=%s is not available on this host: %s; "
                 "see net.ipv4.tcp_allowed_congestion_control", control.c_str(),
                 std::strerror(errno)).with_errno(errno);
  }
  stream_->begin_bulk();
  return loop_.add(fd, EPOLLIN | EPOLLRDHUP, this);
}

bool TcpEndpoint::post(WorkRequest& request) {
  if (!has_room()) return false;
  request.has_trailer = false;
  queue_.push_back(request);
  return true;
}

void TcpEndpoint::acknowledge(uint32_t comm) {
  if (up_ && std::find(ack_comms_.begin(), ack_comms_.end(), comm) == ack_comms_.end()) {
    ack_comms_.push_back(comm);
  }
}

// Without memory: an acknowledgement leaves with the credit of any communicator.
void TcpEndpoint::acknowledge_any() {
  if (ack_comms_.empty()) acknowledge(0);
}

void TcpEndpoint::post_control(const wire::FrameHeader& header, const std::string& text) {
  if (!up_) return;
  Control control;
  const bool agree = header.type == wire::FrameType::agree;
  control.text = text.substr(0, agree ? wire::kAgreeBytesMax : wire::kFailureBytesMax);
  wire::FrameHeader sealed = header;
  sealed.length = static_cast<uint32_t>(control.text.size());
  sealed.ack = landed_;
  told_ = landed_;
  landed_bytes_ = 0;
  wire::encode(sealed, control.header);
  if (trailer_of(control.text.size()) > 0) {
    std::array<std::byte, wire::kTrailerBytes> trailer;
    wire::store_le(trailer.data(), wire::crc32c(std::as_bytes(std::span(control.text))));
    control.text.append(reinterpret_cast<const char*>(trailer.data()), trailer.size());
  }
  control_.push_back(std::move(control));
}

// Acknowledgement and credit are as fresh as the moment of leaving.
void TcpEndpoint::seal(WorkRequest& request) {
  request.header.ack = landed_;
  request.header.credit = events_.credit_to_tell(*this, request.header.comm);
  told_ = landed_;
  landed_bytes_ = 0;
  wire::encode(request.header, request.header_bytes);
  if (request.has_trailer || trailer_of(request.header.length) == 0) return;
  // Once for each time of posting: the bytes do not change until they are released.
  const std::span<const std::byte> payload(request.data, request.header.length);
  wire::store_le(request.trailer_bytes.data(), wire::crc32c(payload));
  request.has_trailer = true;
}

void TcpEndpoint::queue_acks() {
  for (const uint32_t comm : ack_comms_) {
    wire::FrameHeader header;
    header.type = wire::FrameType::ack;
    header.comm = comm;
    header.credit = events_.credit_to_tell(*this, comm);
    post_control(header, {});
    ++counters_.acks_sent;
  }
  ack_comms_.clear();
}

void TcpEndpoint::flush() {
  if (!up_) return;
  if (stream_->wants_write() && !flush_stream()) return;
  // Control frames go between data frames, never into the middle of one.
  if (head_sent_ > 0 && !flush_data()) return;
  if (!up_) return;
  // Acknowledgements are cumulative: while others wait to leave, so does their making.
  if (!flush_control()) return;
  if (!ack_comms_.empty()) {
    queue_acks();
    if (!flush_control()) return;
  }
  flush_data();
}

// What the stream has taken and the kernel has not.
bool TcpEndpoint::flush_stream() {
  if (stream_->push()) return true;
  if (errno == EAGAIN) want_writable(true);
  else fail("send", errno);
  return false;
}

bool TcpEndpoint::flush_control() {
  while (control_next_ < control_.size()) {
    Control& control = control_[control_next_];
    const size_t in_header = std::min(control.sent, wire::kHeaderBytes);
    const size_t in_text = control.sent - in_header;
    std::array<iovec, 2> vectors = {
        iovec{control.header.data() + in_header, wire::kHeaderBytes - in_header},
        iovec{control.text.data() + in_text, control.text.size() - in_text}};
    const ssize_t sent = stream_->send(vectors.data(), vectors.size());
    ++counters_.send_calls;
    if (sent < 0) {
      if (errno == EAGAIN) wait_with_control();
      else fail("send", errno);
      return false;
    }
    counters_.bytes_sent += static_cast<uint64_t>(sent);
    control.sent += static_cast<size_t>(sent);
    if (control.sent == wire::kHeaderBytes + control.text.size()) ++control_next_;
  }
  control_.clear();
  control_next_ = 0;
  return true;
}

// A peer that has us answer and does not read is no reason to grow.
void TcpEndpoint::wait_with_control() {
  control_.erase(control_.begin(), control_.begin() + static_cast<std::ptrdiff_t>(control_next_));
  control_next_ = 0;
  if (control_.size() <= control_frames_max_) return want_writable(true);
  quiesce(error(Code::peer_lost, "rank %d does not read what it is answered on %s: %zu answers wait",
                peer, name_.c_str(), control_.size()));
}

// False when the kernel took less than everything (or the connection went down).
bool TcpEndpoint::flush_data() {
  while (!queue_.empty()) {
    std::array<iovec, 3 * kFramesPerWrite> vectors;
    int count = 0;
    size_t asked = 0;
    size_t skip = head_sent_;
    WorkRequest* request = queue_.front();
    for (int frame = 0; request != nullptr && frame < kFramesPerWrite; ++frame) {
      if (frame > 0 || !head_sealed_) seal(*request);
      count += gather(*request, skip, &vectors[static_cast<size_t>(count)]);
      asked += size_of(*request) - skip;
      skip = 0;
      request = request->next;
    }
    const ssize_t sent = stream_->send(vectors.data(), static_cast<size_t>(count));
    ++counters_.send_calls;
    if (sent < 0) {
      if (errno == EAGAIN) want_writable(true);
      else fail("send", errno);
      return false;
    }
    finish_sent(static_cast<size_t>(sent));
    if (static_cast<size_t>(sent) < asked) {
      want_writable(true);
      return false;
    }
  }
  want_writable(stream_->wants_write());
  return true;
}

// The frame without its first `skip` bytes, as up to three pieces; how many.
int TcpEndpoint::gather(WorkRequest& request, size_t skip, iovec* vectors) const {
  const std::array<iovec, 3> pieces = {
      iovec{request.header_bytes.data(), wire::kHeaderBytes},
      iovec{const_cast<std::byte*>(request.data), request.header.length},
      iovec{request.trailer_bytes.data(), trailer_of(request.header.length)}};
  int count = 0;
  for (const iovec& piece : pieces) {
    const size_t done = std::min(skip, piece.iov_len);
    skip -= done;
    if (piece.iov_len == done) continue;
    vectors[count++] = {static_cast<std::byte*>(piece.iov_base) + done, piece.iov_len - done};
  }
  return count;
}

void TcpEndpoint::finish_sent(size_t bytes) {
  counters_.bytes_sent += bytes;
  head_sent_ += bytes;
  head_sealed_ = true;
  while (!queue_.empty() && head_sent_ >= size_of(*queue_.front())) {
    head_sent_ -= size_of(*queue_.front());
    WorkRequest* const request = queue_.pop_front();
    // Nothing of ours can be in flight behind a stand-in yet, so ghosts stay in front.
    if (request == &stand_in_) ++ghosts_;
    else in_flight_.push_back(*request);
    ++posted_;
    ++counters_.frames_sent;
  }
  // A frame sealed but not begun is sealed again later, with a fresher acknowledgement.
  head_sealed_ = head_sent_ > 0;
}

void TcpEndpoint::want_writable(bool wanted) {
  if (!up_ || wanted == writable_wanted_) return;
  writable_wanted_ = wanted;
  const uint32_t events = EPOLLIN | EPOLLRDHUP | (wanted ? EPOLLOUT : 0u);
  if (Status status = loop_.modify(stream_->fd(), events, this); !status) quiesce(status);
}

uint64_t TcpEndpoint::backlog_bytes() {
  int in_kernel = 0;
  if (!up_) return queued_bytes();
  ioctl(stream_->fd(), SIOCOUTQ, &in_kernel);
  return queued_bytes() + stream_->unsent_bytes() + static_cast<uint64_t>(std::max(in_kernel, 0));
}

void TcpEndpoint::on_ready(uint32_t epoll_events) {
  if (epoll_events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) receive();
  if (up_ && (epoll_events & EPOLLOUT)) {
    flush();
    if (up_ && has_room()) events_.on_room(*this);
  }
}

void TcpEndpoint::receive() {
  size_t total = 0;
  while (up_) {
    const bool more = total < kReceiveBytesPerTurn;
    // What has left the kernel would not wake us again.
    if (!more && !stream_->has_buffered_input()) break;
    // The buffer is empty here: consume_buffer() took everything or began a payload.
    std::array<iovec, 2> vectors;
    size_t count = 0;
    size_t asked = 0;
    size_t direct = 0;
    size_t ahead = kReceiveBuffer - buffer_end_;
    if (receiving_payload_) {
      const size_t left = frame_.length - payload_done_;
      if (landing_.destination != nullptr) {
        direct = left;
        vectors[count++] = {landing_.destination + payload_done_, direct};
        if (left >= kLongPayload) ahead = kReadAheadBehindPayload;
      }
    }
    vectors[count++] = {buffer_.data() + buffer_end_, ahead};
    asked = direct + ahead;
    const auto source = more ? TcpStream::Source::network : TcpStream::Source::buffer;
    const ssize_t received = stream_->receive(vectors.data(), count, source);
    ++counters_.receive_calls;
    if (received < 0) {
      if (errno != EAGAIN) fail("receive", errno);
      else if (stream_->take_arrival()) heard_at_ = loop_.clock().now();
      break;
    }
    if (received == 0) {
      quiesce(error(Code::peer_lost, "connection %s was closed by the peer", name_.c_str()));
      return;
    }
    counters_.bytes_received += static_cast<uint64_t>(received);
    heard_at_ = loop_.clock().now();
    unread_ = 0;
    total += static_cast<size_t>(received);
    const size_t landed = std::min(static_cast<size_t>(received), direct);
    if (checksum_ && landed > 0) {
      payload_crc_ = wire::crc32c({landing_.destination + payload_done_, landed}, payload_crc_);
    }
    payload_done_ += landed;
    buffer_end_ += static_cast<size_t>(received) - landed;
    if (!consume_buffer()) return;
    if (static_cast<size_t>(received) < asked) break;  // drained: no need to hear EAGAIN
  }
  if (up_) want_bytes();
}

// A shaped or busy network delivers a chunk in many pieces, and each would cost a wake-up.
void TcpEndpoint::want_bytes() {
  if (stream_->is_encrypted()) return;  // a record is of use only as a whole, and smaller
  size_t wanted = 1;
  if (receiving_payload_ && frame_.length - payload_done_ >= kLongPayload) {
    wanted = std::min(frame_.length - payload_done_, kLowWaterMax);
  }
  // More than what is to come would never be reached; a little less costs one wake-up more.
  if (low_water_ <= wanted && wanted < 2 * low_water_) return;
  set_option(stream_->fd(), SOL_SOCKET, SO_RCVLOWAT, static_cast<int>(wanted));
  low_water_ = wanted;
}

bool TcpEndpoint::consume_buffer() {
  while (true) {
    if (receiving_payload_) {
      take_payload();
      if (payload_done_ < frame_.length) break;
      if (buffer_end_ - buffer_begin_ < trailer_of(frame_.length)) break;
      if (!check_trailer() || !finish_frame()) return false;
    }
    if (buffer_end_ - buffer_begin_ < wire::kHeaderBytes) break;
    const std::byte* header = buffer_.data() + buffer_begin_;
    buffer_begin_ += wire::kHeaderBytes;
    if (!begin_frame(header)) return false;
  }
  // What is left is the beginning of a header (or nothing): move it to the front.
  const size_t left = buffer_end_ - buffer_begin_;
  if (buffer_begin_ > 0 && left > 0) {
    std::memmove(buffer_.data(), buffer_.data() + buffer_begin_, left);
  }
  buffer_begin_ = 0;
  buffer_end_ = left;
  return true;
}

void TcpEndpoint::take_payload() {
  const size_t take = std::min(frame_.length - payload_done_, buffer_end_ - buffer_begin_);
  const std::byte* const from = buffer_.data() + buffer_begin_;
  if (landing_.destination != nullptr) {
    std::memcpy(landing_.destination + payload_done_, from, take);
  } else if (frame_.type != wire::FrameType::data) {
    control_text_.append(reinterpret_cast<const char*>(from), take);
  }
  if (checksum_) payload_crc_ = wire::crc32c({from, take}, payload_crc_);
  payload_done_ += take;
  buffer_begin_ += take;
}

bool TcpEndpoint::check_trailer() {
  if (trailer_of(frame_.length) == 0) return true;
  const auto told = wire::load_le<uint32_t>(buffer_.data() + buffer_begin_);
  buffer_begin_ += wire::kTrailerBytes;
  if (told == payload_crc_) return true;
  quiesce(error(Code::internal, "payload checksum: %u bytes from rank %d (op %llu, chunk %u) were "
                "changed on the way on %s; check that network's cables, devices and offloads",
                frame_.length, peer, static_cast<unsigned long long>(frame_.op_seq), frame_.chunk,
                name_.c_str()));
  return false;
}

bool TcpEndpoint::begin_frame(const std::byte* bytes) {
  const wire::HeaderError refusal =
      wire::decode(wire::ConstHeaderBytes(bytes, wire::kHeaderBytes), &frame_);
  if (refusal != wire::HeaderError::none) {
    quiesce(error(Code::internal, "rank %d sent a bad frame on %s: %s", peer, name_.c_str(),
                  std::string(wire::name_of(refusal)).c_str()));
    return false;
  }
  handle_ack(frame_);
  if (!up_) return false;
  payload_done_ = 0;
  payload_crc_ = 0;
  receiving_payload_ = true;
  landing_ = Landing();
  if (frame_.type == wire::FrameType::data) {
    landing_ = events_.on_frame(*this, frame_);
    if (landing_.refused) {
      quiesce(error(Code::internal, "rank %d broke the protocol on %s: op %llu, chunk %u, stage %u",
                    peer, name_.c_str(), static_cast<unsigned long long>(frame_.op_seq),
                    frame_.chunk, frame_.stage));
      return false;
    }
    if (!up_) return false;
  }
  control_text_.clear();
  return frame_.length > 0 || finish_frame();
}

bool TcpEndpoint::finish_frame() {
  receiving_payload_ = false;
  const Landing landing = landing_;
  landing_ = Landing();
  switch (frame_.type) {
    case wire::FrameType::data:
      ++landed_;
      landed_bytes_ += frame_.length;
      ++counters_.frames_received;
      events_.on_landed(*this, frame_, landing);
      break;
    case wire::FrameType::failure:
      events_.on_failure(*this, frame_, control_text_);
      break;
    case wire::FrameType::goodbye:
      goodbye_received_ = true;
      break;
    case wire::FrameType::ack:
      break;
    default:
      events_.on_control(*this, frame_, control_text_);
  }
  return up_;
}

void TcpEndpoint::handle_ack(const wire::FrameHeader& header) {
  const uint32_t newly = header.ack - released_;
  if (newly > posted_ - released_) {
    quiesce(error(Code::internal, "rank %d acknowledged %u frames on %s, but only %u are out", peer,
                  newly, name_.c_str(), posted_ - released_));
    return;
  }
  const uint32_t late = std::min(newly, ghosts_);
  ghosts_ -= late;
  for (uint32_t i = late; i < newly; ++i) events_.on_released(*this, *in_flight_.pop_front());
  released_ = header.ack;
  if (header.type == wire::FrameType::data || header.type == wire::FrameType::ack) {
    events_.on_credit(*this, header.comm, header.credit);
  }
}

void TcpEndpoint::disown(const void* owner, WorkQueue& unsent) {
  WorkQueue kept;
  bool head = head_sent_ > 0;
  while (!queue_.empty()) {
    WorkRequest* request = queue_.pop_front();
    if (request->owner == owner && !head) {
      // Its sealed header may have held an acknowledgement that now has to leave in another way.
      acknowledge_any();
      unsent.push_back(*request);
      continue;
    }
    kept.push_back(*request);
    if (head && request->owner == owner) {
      queue_.prepend(kept);
      unsent.push_back(*replace_head());
      kept.push_back(*queue_.pop_front());
    }
    head = false;
  }
  queue_ = kept;
  for (WorkRequest* request = in_flight_.front(); request != nullptr; request = request->next) {
    if (request->owner == owner) request->owner = nullptr, request->data = nullptr;
  }
}

WorkRequest* TcpEndpoint::replace_head() {
  WorkRequest* const request = queue_.pop_front();
  stand_in_ = WorkRequest();
  stand_in_.header = request->header;
  stand_in_.header_bytes = request->header_bytes;
  stand_in_.trailer_bytes = request->trailer_bytes;
  stand_in_.has_trailer = request->has_trailer;
  try {
    stand_in_bytes_.assign(request->data, request->data + request->header.length);
    stand_in_.data = stand_in_bytes_.data();
  } catch (const std::bad_alloc&) {
    shutdown(stream_->fd(), SHUT_RDWR);  // half a frame without its rest: nothing may follow it
  }
  WorkQueue head;
  head.push_back(stand_in_);
  queue_.prepend(head);
  return request;
}

void TcpEndpoint::recall(WorkQueue& unacknowledged) {
  while (!in_flight_.empty()) {
    unacknowledged.push_back(*in_flight_.pop_front());
    ++ghosts_;
  }
  WorkQueue rest;
  if (head_sent_ > 0) {
    if (queue_.front() != &stand_in_) unacknowledged.push_back(*replace_head());
    rest.push_back(*queue_.pop_front());
  }
  // Sealed headers of what has not begun may have held acknowledgements that now leave otherwise.
  if (!queue_.empty()) acknowledge_any();
  unacknowledged.append(queue_);
  queue_ = rest;
}

// While a long payload arrives the kernel wakes us only when much of it is there: what it holds counts.
Nanoseconds TcpEndpoint::heard_at() {
  int unread = 0;
  if (up_ && low_water_ > 1 && ioctl(stream_->fd(), FIONREAD, &unread) == 0 && unread > unread_) {
    unread_ = unread;
    heard_at_ = loop_.clock().now();
  }
  return heard_at_;
}

void TcpEndpoint::fail(const char* what, int os_errno) {
  quiesce(error(Code::peer_lost, "%s failed on %s: %s", what, name_.c_str(),
                stream_->explain(os_errno).c_str()).with_errno(os_errno));
}

void TcpEndpoint::quiesce(const Status& why) {
  if (!up_) return;
  up_ = false;
  loop_.remove(stream_->fd(), this);
  // No linger: bytes of a connection that was given up must not arrive later.
  if (!goodbye_received_) {
    const linger hard{1, 0};
    setsockopt(stream_->fd(), SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
  }
  stream_.reset();
  WorkQueue unacknowledged;
  unacknowledged.append(in_flight_);
  if (!queue_.empty() && queue_.front() == &stand_in_) queue_.pop_front();
  unacknowledged.append(queue_);
  head_sent_ = 0;
  control_.clear();
  control_next_ = 0;
  ack_comms_.clear();
  Status located = why;
  located.with_peer(peer).with_rail(rail);
  events_.on_down(*this, unacknowledged, located, goodbye_received_);
  receiving_payload_ = false;
}

}  // namespace nezha::transport
