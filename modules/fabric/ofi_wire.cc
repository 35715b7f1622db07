#include "fabric/ofi_wire.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/copy.h"

namespace nezha::transport {

// Completions of every send, receive and write of this end, and of every write of the peer.
const size_t OfiWire::kCompletions = kReceives + kSends + 2 * kLongs + 2 * kAnnounced;

OfiWire::OfiWire(progress::Loop& loop, std::unique_ptr<FabricPort> port, fi_addr_t to, std::string name,
                 const OfiTokens& tokens)
    : Wire(std::move(name)), loop_(loop), library_(port->rail().library()),
      told_by_message_(port->rail().tells_by_message()),
      has_wide_words_(port->rail().info().domain_attr->cq_data_size >= sizeof(uint64_t)),
      eager_bytes_(port->rail().eager_bytes()),
      long_bytes_(kFrameHeadBytes + eager_bytes_ + wire::kTrailerBytes), port_(std::move(port)), to_(to),
      tokens_(tokens) {}

Status OfiWire::start(WireEvents& events) {
  events_ = &events;
  heard_at_ = active_at_ = loop_.clock().now();
  // Not initialized: where buffers need not be registered, those that are never used take no
  // memory.
  buffers_ = std::make_unique_for_overwrite<std::byte[]>(buffers_bytes());
  NEZHA_RETURN_IF_ERROR(
      port_->rail().register_local(buffers_.get(), buffers_bytes(), &buffers_region_));
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
    // Watched for edges: the descriptor stays ready until may_sleep() clears it, and a loop that
    // polls for a while before it sleeps would find it ready in every poll, and would neither yield
    // nor sleep any more.
    NEZHA_RETURN_IF_ERROR(loop_.add(port_->wait_fd(), EPOLLIN | EPOLLET, this));
  }
  loop_.add_polled(this);
  return Status::ok();
}

// ------------------------------------------------------------------------------------- sending

// Grants go first, because the peer waits for them. Announcements go before writes, behind which
// they would wait.
size_t OfiWire::send(std::span<WorkRequest* const> frames) {
  stalled_ = false;
  if (!flush_grants()) return 0;
  size_t taken = 0;
  while (taken < frames.size()) {
    const bool is_small = frames[taken]->header.length <= eager_bytes_;
    const size_t more = is_small ? send_together(frames.subspan(taken)) : announce(*frames[taken]);
    if (more == 0) break;
    taken += more;
  }
  if (is_fenced() || stalled_ || !flush_writes()) return taken;
  if (owes_credit() && !free_sends_.empty()) send_message(OfiMessageKind::credit, 0);
  return taken;
}

bool OfiWire::send_message(OfiMessageKind kind, size_t body_bytes, bool wanted) {
  const bool is_long = OfiWire::is_long(body_bytes);
  std::vector<uint16_t>& free = is_long ? free_long_sends_ : free_sends_;
  const uint16_t index = free.back();
  std::byte* const message = send_buffer(index);
  sent_at_ = loop_.clock().now();
  const Nanoseconds landed_before = (sent_at_ - landed_at_) / kMicrosecond;
  encode(OfiPreamble{tokens_.out, taken(), events_->landed_frames(), kind, wanted, messages_sent_,
                     writes_begun_, longs_taken_, sent_at_, static_cast<uint32_t>(landed_before),
                     drain_.least()},
         message);
  using Lane = FabricPort::Lane;
  const ssize_t answer =
      port_->send(to_, message, kPreambleBytes + body_bytes, buffers_region_, sends_[index],
                  is_long ? Lane::long_messages : Lane::short_messages);
  ++send_calls_;
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
  taken_told_ = taken();
  longs_told_ = longs_taken_;
  untold_bytes_ = 0;
  news_ = false;
  writes_told_ = writes_begun_;
  return true;
}

size_t OfiWire::send_together(std::span<WorkRequest* const> frames) {
  size_t bytes = 0;
  size_t count = 0;
  const size_t most = std::min<size_t>(frames.size(), kSlots - (sent_ - credited_));
  for (; count < most; ++count) {
    const size_t more = frame_bytes(*frames[count]);
    if (frames[count]->header.length > eager_bytes_ || kPreambleBytes + bytes + more > long_bytes_) break;
    bytes += more;
  }
  if (!can_send_frame(bytes)) return 0;
  std::byte* out = next_body(bytes);
  const auto put = [&](const std::byte* from, size_t length) {
    copy_bytes(out, from, length);
    out += length;
  };
  for (const WorkRequest* frame : frames.first(count)) {
    put(frame->header_bytes.data(), wire::kHeaderBytes);
    put(frame->data, frame->header.length);
    put(frame->trailer_bytes.data(), frame->has_trailer ? wire::kTrailerBytes : 0);
  }
  if (!send_message(OfiMessageKind::frames, bytes)) return 0;
  for (const WorkRequest* frame : frames.first(count)) {
    const uint32_t number = sent_++;
    if (frame->header.type != wire::FrameType::data) continue;
    const auto size = static_cast<uint32_t>(frame_bytes(*frame));
    frame_bytes_[number % kSlots] = size;
    untaken_bytes_ += size;
    drain_.began(begun_++, size, sent_at_);
  }
  return count;
}

size_t OfiWire::announce(const WorkRequest& frame) {
  const size_t body = frame_bytes(frame) - frame.header.length;
  if (!can_send_frame(body)) return 0;
  const uint32_t length = frame.header.length;
  Outgoing* const outgoing = free_outgoing();
  if (outgoing == nullptr || (outgoing_bytes_ > 0 && outgoing_bytes_ + length > kAnnouncedBytesMax)) {
    return 0;
  }
  std::byte* const out = next_body(body);
  std::memcpy(out, frame.header_bytes.data(), wire::kHeaderBytes);
  std::memcpy(out + wire::kHeaderBytes, frame.trailer_bytes.data(), body - wire::kHeaderBytes);
  if (!send_message(OfiMessageKind::announce, body)) return 0;
  ++sent_;
  outgoing->enter(Outgoing::State::announced);
  outgoing->number = begun_++;
  outgoing->length = length;
  outgoing->data = frame.data;
  outgoing_bytes_ += length;
  drain_.announced(sent_at_);
  return 1;
}

void OfiWire::credit(uint32_t taken) {
  for (; credited_ != taken; ++credited_) {
    uint32_t& bytes = frame_bytes_[credited_ % kSlots];
    untaken_bytes_ -= bytes;
    bytes = 0;
  }
}

OfiWire::Outgoing* OfiWire::free_outgoing() {
  const auto found = std::find_if(outgoing_.begin(), outgoing_.end(), [](const Outgoing& each) {
    return each.state == Outgoing::State::free;
  });
  return found == outgoing_.end() ? nullptr : &*found;
}

OfiWire::Outgoing* OfiWire::find_outgoing(uint32_t number) {
  if (outgoing_bytes_ == 0) return nullptr;
  const auto found = std::find_if(outgoing_.begin(), outgoing_.end(), [&](const Outgoing& each) {
    return each.state != Outgoing::State::free && each.number == number;
  });
  return found == outgoing_.end() ? nullptr : &*found;
}

// Writes begin in the order of their frames: on_told() at the receiver tells them apart by that
// order.
const OfiWire::Outgoing* OfiWire::next_write() const {
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

bool OfiWire::flush_writes() {
  while (const Outgoing* next = next_write()) {
    if (!start_write(outgoing_[next->operation.index])) return false;
  }
  return true;
}

bool OfiWire::start_write(Outgoing& outgoing) {
  if (outgoing.region == nullptr) {
    const Status status =
        port_->rail().register_local(outgoing.data, outgoing.length, &outgoing.region);
    if (!status) {
      events_->on_broken(status);
      return false;
    }
  }
  const ssize_t answer =
      port_->write(to_, outgoing.data, outgoing.length, outgoing.region, outgoing.target,
                   word_of(outgoing.number, tokens_.out), outgoing.operation);
  ++send_calls_;
  if (answer == -FI_EAGAIN) {
    stalled_ = true;
    return false;
  }
  if (answer != 0) {
    fail("write", answer);
    return false;
  }
  outgoing.enter(Outgoing::State::writing);
  drain_.began(outgoing.number, outgoing.length, loop_.clock().now());
  ++writes_begun_;
  return true;
}

void OfiWire::free_landed() {
  if (outgoing_bytes_ == 0) return;
  for (Outgoing& each : outgoing_) {
    if (each.state != Outgoing::State::written ||
        static_cast<int32_t>(delivered_ - each.number) <= 0) {
      continue;
    }
    each.enter(Outgoing::State::free);
    outgoing_bytes_ -= each.length;
  }
}

// ------------------------------------------------------------------------------- taking back

Wire::Use OfiWire::use_of(uint32_t number) {
  const Outgoing* const outgoing = find_outgoing(number);
  if (outgoing == nullptr || outgoing->state == Outgoing::State::written) return Use::none;
  return outgoing->state == Outgoing::State::writing ? Use::ending : Use::needed;
}

Status OfiWire::detach(uint32_t number) {
  Outgoing* const outgoing = is_fenced() ? nullptr : find_outgoing(number);
  if (outgoing == nullptr || use_of(number) == Use::none || !outgoing->copy.empty()) return Status::ok();
  try {
    if (outgoing->state != Outgoing::State::writing) {
      outgoing->copy.assign(outgoing->data, outgoing->data + outgoing->length);
      FabricRail::forget(outgoing->region);
      outgoing->data = outgoing->copy.data();
      return Status::ok();
    }
  } catch (const std::bad_alloc&) {
    // Without memory for a copy the port is closed, as in the middle of a write.
  }
  fence();
  return nothrow_error(Code::aborted, "connection %s was closed during a write, because the "
                       "transfer was cancelled or sent on another rail", name_.c_str());
}

bool OfiWire::is_detaching_fatal() const {
  return std::any_of(outgoing_.begin(), outgoing_.end(), [](const Outgoing& each) {
    return each.state != Outgoing::State::free;
  });
}

Status OfiWire::abandon(Arrival& arrival) {
  const bool is_written = arrival.is_data && incoming(arrival.number).arrival == &arrival;
  if (is_fenced() || !is_written) return Status::ok();
  fence();
  return nothrow_error(Code::aborted, "connection %s was closed because the peer could still "
                       "write to memory that is used again", name_.c_str());
}

void OfiWire::fence() {
  if (is_fenced()) return;
  if (port_->wait_fd() >= 0) loop_.remove(port_->wait_fd(), this);
  // Registrations are released after the port, which uses them, is closed, and before the rail, to
  // which they belong, is destroyed.
  const std::unique_ptr<FabricPort> port = std::move(port_);
  port->close();
  for (Outgoing& each : outgoing_) FabricRail::forget(each.region);
  for (Incoming& each : incoming_) FabricRail::forget(each.region);
  FabricRail::forget(buffers_region_);
}

void OfiWire::close(bool) {
  fence();
  loop_.remove_polled(this);
}

void OfiWire::fail(const char* what, long reason) {
  events_->on_broken(error(Code::peer_lost, "%s failed on %s: %s", what, name_.c_str(),
                           library_.explain(reason).c_str()));
}

void OfiWire::break_protocol(const char* what) {
  events_->on_broken(error(Code::internal, "the peer broke the protocol on %s: it %s", name_.c_str(),
                           what));
}

}  // namespace nezha::transport
