#include "transport/ofi/ofi_endpoint.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "wire/crc32c.h"

namespace nezha::transport {

// Every send, receive and write of ours, every write of the peer's.
const size_t OfiEndpoint::kCompletions = kReceives + kSends + 2 * kLongs + 2 * kAnnounced;

OfiEndpoint::OfiEndpoint(progress::Loop& loop, ConnectionEvents& events,
                         std::unique_ptr<FabricPort> port, fi_addr_t to, std::string name,
                         const OfiEndpointOptions& options)
    : loop_(loop), events_(events), library_(port->rail().library()),
      told_by_message_(port->rail().tells_by_message()),
      has_wide_words_(port->rail().info().domain_attr->cq_data_size >= sizeof(uint64_t)),
      eager_bytes_(port->rail().eager_bytes()), long_bytes_(kFrameHeadBytes + eager_bytes_),
      port_(std::move(port)), to_(to),
      name_(std::move(name)), options_(options) {}

OfiEndpoint::~OfiEndpoint() {
  fence(Status::ok());
  loop_.remove_polled(this);
}

Status OfiEndpoint::start() {
  heard_at_ = active_at_ = loop_.clock().now();
  // What is never used takes no memory, where it need not be registered.
  buffers_ = std::make_unique_for_overwrite<std::byte[]>(buffers_bytes());
  NEZHA_RETURN_IF_ERROR(
      port_->rail().register_local(buffers_.get(), buffers_bytes(), &buffers_region_));
  ack_comms_.reserve(1);
  free_sends_.reserve(kSends);
  free_long_sends_.reserve(kLongs);
  unposted_.reserve(receives_.size());
  for (uint16_t i = 0; i < sends_.size(); ++i) {
    sends_[i].kind = FabricOperation::Kind::send;
    sends_[i].index = i;
    (i < kSends ? free_sends_ : free_long_sends_).push_back(i);
  }
  for (uint16_t i = 0; i < kAnnounced; ++i) {
    outgoing_[i].operation.kind = FabricOperation::Kind::write;
    outgoing_[i].operation.index = i;
  }
  for (uint16_t i = 0; i < receives_.size(); ++i) {
    receives_[i].kind = FabricOperation::Kind::receive;
    receives_[i].index = i;
    NEZHA_RETURN_IF_ERROR(post_receive(i));
  }
  if (port_->wait_fd() >= 0) {
    // On edges: the descriptor stays ready until may_sleep() makes it forget, and a loop that polls for a
    // while before it sleeps would find it ready in every poll, neither yielding nor sleeping any more.
    NEZHA_RETURN_IF_ERROR(loop_.add(port_->wait_fd(), EPOLLIN | EPOLLET, this));
  }
  started_ = true;
  loop_.add_polled(this);
  return Status::ok();
}

bool OfiEndpoint::post(WorkRequest& request) {
  if (!has_room()) return false;
  queue_.push_back(request);
  return true;
}

void OfiEndpoint::acknowledge(uint32_t comm) {
  if (up_ && std::find(ack_comms_.begin(), ack_comms_.end(), comm) == ack_comms_.end()) {
    ack_comms_.push_back(comm);
  }
}

// Without memory: an acknowledgement leaves with the credit of any communicator.
void OfiEndpoint::acknowledge_any() {
  if (ack_comms_.empty()) acknowledge(0);
}

void OfiEndpoint::post_control(const wire::FrameHeader& header, const std::string& text) {
  if (!up_) return;
  const bool agree = header.type == wire::FrameType::agree;
  control_.push_back({header, text.substr(0, agree ? wire::kAgreeBytesMax : wire::kFailureBytesMax)});
}

void OfiEndpoint::queue_acks() {
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

bool OfiEndpoint::has_output() const {
  return up_ && (is_fenced() || !queue_.empty() || !control_.empty() || !ack_comms_.empty() ||
                 next_write() != nullptr || grants_count_ > 0 || owes_credit());
}

void OfiEndpoint::flush() {
  if (!up_) return;
  if (is_fenced()) return quiesce(broken_);
  stalled_ = false;
  // What the peer waits for goes first, and announcements before the writes that would be before them.
  if (!flush_grants()) return;
  queue_acks();
  if (!flush_control() || !flush_data() || !flush_writes()) return;
  if (owes_credit() && !free_sends_.empty()) send(OfiMessageKind::credit, 0);
}

// ------------------------------------------------------------------------------------- sending

uint32_t OfiEndpoint::crc_of(std::span<const std::byte> bytes) const {
  return options_.payload_checksum ? wire::crc32c(bytes) : 0;
}

bool OfiEndpoint::send(OfiMessageKind kind, size_t body_bytes, uint32_t crc, bool wanted) {
  const bool is_long = OfiEndpoint::is_long(body_bytes);
  std::vector<uint16_t>& free = is_long ? free_long_sends_ : free_sends_;
  const uint16_t index = free.back();
  std::byte* const message = send_buffer(index);
  sent_at_ = loop_.clock().now();
  const Nanoseconds landed_before = (sent_at_ - landed_at_) / kMicrosecond;
  encode(OfiPreamble{options_.token_out, taken_, landed_, crc, kind, wanted, messages_sent_,
                     writes_begun_, longs_taken_, sent_at_, static_cast<uint32_t>(landed_before),
                     drain_.least()},
         message);
  using Lane = FabricPort::Lane;
  const ssize_t answer =
      port_->send(to_, message, kPreambleBytes + body_bytes, buffers_region_, sends_[index],
                  is_long ? Lane::long_messages : Lane::short_messages);
  ++counters_.send_calls;
  if (answer == -FI_EAGAIN) {
    stalled_ = true;
    return false;
  }
  if (answer != 0) {
    fail("send", answer);
    return false;
  }
  free.pop_back();
  ++messages_sent_;
  if (is_long) ++longs_sent_;
  taken_told_ = taken_;
  longs_told_ = longs_taken_;
  untold_bytes_ = 0;
  news_ = false;
  writes_told_ = writes_begun_;
  return true;
}

bool OfiEndpoint::send_frames(OfiMessageKind kind, size_t body_bytes, uint32_t frames, uint32_t crc) {
  if (!send(kind, body_bytes, crc)) return false;
  sent_ += frames;
  told_ = landed_;
  landed_bytes_ = 0;
  return true;
}

bool OfiEndpoint::flush_control() {
  while (control_next_ < control_.size()) {
    Control& control = control_[control_next_];
    const size_t bytes = wire::kHeaderBytes + control.text.size();
    if (!can_send_frame(bytes)) return true;  // the peer's credit, or a completion, brings us back
    control.header.length = static_cast<uint32_t>(control.text.size());
    control.header.ack = landed_;
    std::byte* const body = next_body(bytes);
    wire::encode(control.header, wire::HeaderBytes(body, wire::kHeaderBytes));
    std::memcpy(body + wire::kHeaderBytes, control.text.data(), control.text.size());
    if (!send_frames(OfiMessageKind::frames, bytes, 1, crc_of({body, bytes}))) return false;
    counters_.bytes_sent += bytes;
    ++control_next_;
  }
  control_.clear();
  control_next_ = 0;
  return true;
}

// False when the provider takes nothing more, or the connection went down.
bool OfiEndpoint::flush_data() {
  while (!queue_.empty() &&
         (queue_.front()->header.length <= eager_bytes_ ? begin_frames() : announce(*queue_.front()))) {
  }
  return up_ && !stalled_;
}

void OfiEndpoint::encode_data(WorkRequest& request, std::byte* out) {
  request.header.ack = landed_;
  request.header.credit = events_.credit_to_tell(*this, request.header.comm);
  wire::encode(request.header, wire::HeaderBytes(out, wire::kHeaderBytes));
}

// As many as fit a message: each message costs either end a system call.
bool OfiEndpoint::begin_frames() {
  size_t bytes = 0;
  uint32_t frames = 0;
  const uint32_t most = kSlots - (sent_ - credited_);
  for (const WorkRequest* next = queue_.front(); next != nullptr && frames < most; next = next->next) {
    const size_t more = wire::kHeaderBytes + next->header.length;
    if (next->header.length > eager_bytes_ || kPreambleBytes + bytes + more > long_bytes_) break;
    bytes += more;
    ++frames;
  }
  if (!can_send_frame(bytes)) return false;
  std::byte* const body = next_body(bytes);
  std::byte* out = body;
  WorkRequest* request = queue_.front();
  for (uint32_t i = 0; i < frames; ++i, request = request->next) {
    encode_data(*request, out);
    out += wire::kHeaderBytes;
    if (request->header.length > 0) std::memcpy(out, request->data, request->header.length);
    out += request->header.length;
  }
  if (!send_frames(OfiMessageKind::frames, bytes, frames, crc_of({body, bytes}))) return false;
  for (uint32_t number = sent_ - frames; number != sent_; ++number) {
    WorkRequest& sent = *queue_.pop_front();
    frame_bytes_[number % kSlots] = wire::kHeaderBytes + sent.header.length;
    in_flight_.push_back(sent);
    drain_.began(begun_++, wire::kHeaderBytes + sent.header.length, sent_at_);
  }
  untaken_bytes_ += bytes;
  counters_.frames_sent += frames;
  counters_.bytes_sent += bytes;
  return true;
}

bool OfiEndpoint::announce(WorkRequest& request) {
  if (!can_send_frame(wire::kHeaderBytes)) return false;
  const uint32_t length = request.header.length;
  Outgoing* const outgoing = free_outgoing();
  if (outgoing == nullptr || (outgoing_bytes_ > 0 && outgoing_bytes_ + length > kAnnouncedBytesMax)) {
    return false;
  }
  encode_data(request, next_body(wire::kHeaderBytes));
  const uint32_t crc = crc_of({request.data, length});
  if (!send_frames(OfiMessageKind::announce, wire::kHeaderBytes, 1, crc)) return false;
  queue_.pop_front();
  in_flight_.push_back(request);
  ++counters_.frames_sent;
  counters_.bytes_sent += wire::kHeaderBytes + length;
  outgoing->state = Outgoing::State::announced;
  outgoing->number = begun_++;
  outgoing->length = length;
  outgoing->data = request.data;
  outgoing_bytes_ += length;
  drain_.announced(sent_at_);
  return true;
}

void OfiEndpoint::credit(uint32_t taken) {
  for (; credited_ != taken; ++credited_) {
    uint32_t& bytes = frame_bytes_[credited_ % kSlots];
    untaken_bytes_ -= bytes;
    bytes = 0;
  }
}

OfiEndpoint::Outgoing* OfiEndpoint::free_outgoing() {
  const auto found = std::find_if(outgoing_.begin(), outgoing_.end(), [](const Outgoing& each) {
    return each.state == Outgoing::State::free;
  });
  return found == outgoing_.end() ? nullptr : &*found;
}

OfiEndpoint::Outgoing* OfiEndpoint::find_outgoing(uint32_t number) {
  if (outgoing_bytes_ == 0) return nullptr;
  const auto found = std::find_if(outgoing_.begin(), outgoing_.end(), [&](const Outgoing& each) {
    return each.state != Outgoing::State::free && each.number == number;
  });
  return found == outgoing_.end() ? nullptr : &*found;
}

// In the order of posting: the receiver tells them in that order.
const OfiEndpoint::Outgoing* OfiEndpoint::next_write() const {
  if (outgoing_bytes_ == 0) return nullptr;
  const Outgoing* next = nullptr;
  uint64_t under_way = 0;
  for (const Outgoing& each : outgoing_) {
    if (each.state == Outgoing::State::writing || each.state == Outgoing::State::written) {
      under_way += each.length;
    } else if (each.state == Outgoing::State::granted &&
               (next == nullptr || static_cast<int32_t>(each.number - next->number) < 0)) {
      next = &each;
    }
  }
  const bool enough = next != nullptr && under_way > 0 && under_way + next->length > kWrittenBytesMax;
  return enough ? nullptr : next;
}

bool OfiEndpoint::flush_writes() {
  while (const Outgoing* next = next_write()) {
    if (!start_write(outgoing_[next->operation.index])) return false;
  }
  return true;
}

bool OfiEndpoint::start_write(Outgoing& outgoing) {
  if (outgoing.region == nullptr) {
    const Status status =
        port_->rail().register_local(outgoing.data, outgoing.length, &outgoing.region);
    if (!status) {
      quiesce(status);
      return false;
    }
  }
  const ssize_t answer =
      port_->write(to_, outgoing.data, outgoing.length, outgoing.region, outgoing.target,
                   word_of(outgoing.number, options_.token_out), outgoing.operation);
  ++counters_.send_calls;
  if (answer == -FI_EAGAIN) {
    stalled_ = true;
    return false;
  }
  if (answer != 0) {
    fail("write", answer);
    return false;
  }
  outgoing.state = Outgoing::State::writing;
  drain_.began(outgoing.number, outgoing.length, loop_.clock().now());
  ++writes_begun_;
  return true;
}

void OfiEndpoint::free_landed() {
  if (outgoing_bytes_ == 0) return;
  for (Outgoing& each : outgoing_) {
    if (each.state != Outgoing::State::written ||
        static_cast<int32_t>(delivered_ - each.number) <= 0) {
      continue;
    }
    each.state = Outgoing::State::free;
    outgoing_bytes_ -= each.length;
  }
}

void OfiEndpoint::release_acknowledged() {
  while (up_ && released_ != acknowledged_) {
    const Outgoing* const outgoing = find_outgoing(released_);
    if (outgoing != nullptr && outgoing->state != Outgoing::State::written) {
      // The peer has it all, and this end does not know yet that nothing reads it any more.
      if (outgoing->state == Outgoing::State::writing) return;
      return break_protocol("acknowledged a payload that was not written");
    }
    ++released_;
    if (ghosts_ > 0) {
      --ghosts_;
    } else {
      events_.on_released(*this, *in_flight_.pop_front());
    }
  }
}

// ------------------------------------------------------------------------------- taking back

// The payload goes on from a private copy; false when it is being read, or there is no memory.
bool OfiEndpoint::detach(Outgoing& outgoing) {
  if (outgoing.state == Outgoing::State::writing) return false;
  if (outgoing.state == Outgoing::State::written || !outgoing.copy.empty()) return true;
  try {
    outgoing.copy.assign(outgoing.data, outgoing.data + outgoing.length);
  } catch (const std::bad_alloc&) {
    return false;
  }
  FabricRail::forget(outgoing.region);
  outgoing.data = outgoing.copy.data();
  return true;
}

void OfiEndpoint::disown(const void* owner, WorkQueue& unsent) {
  WorkQueue kept;
  while (!queue_.empty()) {
    WorkRequest* request = queue_.pop_front();
    if (request->owner == owner) {
      // The last attempt to send it may have told a credit that now has to leave in another way.
      acknowledge_any();
      unsent.push_back(*request);
    } else {
      kept.push_back(*request);
    }
  }
  queue_ = kept;
  uint32_t number = first_unacknowledged();
  for (WorkRequest* request = in_flight_.front(); request != nullptr; request = request->next) {
    Outgoing* const outgoing = find_outgoing(number++);
    if (request->owner != owner) continue;
    request->owner = nullptr, request->data = nullptr;
    if (outgoing != nullptr && !detach(*outgoing)) {
      fence(error(Code::aborted, "connection %s was closed in the middle of a write whose memory was "
                  "needed back", name_.c_str()));
    }
  }
}

void OfiEndpoint::recall(WorkQueue& unacknowledged) {
  uint32_t number = first_unacknowledged();
  while (!in_flight_.empty()) {
    Outgoing* const outgoing = find_outgoing(number++);
    if (outgoing != nullptr && !detach(*outgoing)) {
      fence(error(Code::peer_lost, "connection %s was closed in the middle of a write that went to "
                  "another rail", name_.c_str()));
    }
    unacknowledged.push_back(*in_flight_.pop_front());
    ++ghosts_;
  }
  if (!queue_.empty()) acknowledge_any();
  unacknowledged.append(queue_);
}

// Not only in the middle of a write: where a payload is announced, its receiver has granted the memory,
// or is about to, and cannot give that to a copy that comes another way without closing its end.
bool OfiEndpoint::recall_ends_it() const {
  return std::any_of(outgoing_.begin(), outgoing_.end(), [](const Outgoing& each) {
    return each.state != Outgoing::State::free;
  });
}

void OfiEndpoint::abandon_landing(int index) {
  Incoming& arrived = incoming(static_cast<uint32_t>(index));
  arrived.landing.owner = nullptr;
  if (arrived.is_written && !arrived.complete && arrived.landing.destination != nullptr) {
    fence(error(Code::aborted, "connection %s was closed because the memory that rank %d writes to was "
                "needed back", name_.c_str(), peer));
  }
  arrived.landing.destination = nullptr;
}

void OfiEndpoint::fence(const Status& why) {
  if (is_fenced()) return;
  broken_ = why;
  if (started_ && port_->wait_fd() >= 0) loop_.remove(port_->wait_fd(), this);
  // A registration must not go before what uses it, and not after what it belongs to.
  const std::unique_ptr<FabricPort> port = std::move(port_);
  port->close();
  for (Outgoing& each : outgoing_) FabricRail::forget(each.region);
  for (Incoming& each : incoming_) FabricRail::forget(each.region);
  FabricRail::forget(buffers_region_);
}

void OfiEndpoint::fail(const char* what, long reason) {
  quiesce(error(Code::peer_lost, "%s failed on %s: %s", what, name_.c_str(),
                library_.explain(reason).c_str()));
}

void OfiEndpoint::break_protocol(const char* what) {
  quiesce(error(Code::internal, "rank %d broke the protocol on %s: it %s", peer, name_.c_str(), what));
}

void OfiEndpoint::quiesce(const Status& why) {
  if (!up_) return;
  up_ = false;
  fence(why);
  loop_.remove_polled(this);
  WorkQueue unacknowledged;
  unacknowledged.append(in_flight_);
  unacknowledged.append(queue_);
  control_.clear();
  control_next_ = 0;
  ack_comms_.clear();
  Status located = why;
  located.with_peer(peer).with_rail(rail);
  events_.on_down(*this, unacknowledged, located, goodbye_received_);
  incoming_count_ = 0;
}

}  // namespace nezha::transport
