// OfiEndpoint: what arrives, and what becomes of it.
#include <algorithm>
#include <array>
#include <cstring>

#include "transport/ofi/ofi_endpoint.h"

namespace nezha::transport {

Status OfiEndpoint::post_receive(size_t index) {
  const bool is_long = index >= kReceives;
  using Lane = FabricPort::Lane;
  const ssize_t answer =
      port_->receive(receive_buffer(index), is_long ? long_bytes_ : kShortBytes, buffers_region_,
                     receives_[index], is_long ? Lane::long_messages : Lane::short_messages);
  if (answer == 0) return Status::ok();
  if (answer == -FI_EAGAIN) {
    unposted_.push_back(static_cast<uint16_t>(index));
    return Status::ok();
  }
  return error(Code::peer_lost, "receive failed on %s: %s", name_.c_str(),
               library_.explain(answer).c_str());
}

bool OfiEndpoint::poll() {
  if (!up_) return false;
  if (is_fenced() || ask_ || stalled_ || !unposted_.empty() || !port_->tells()) return take();
  watch_writes();
  if (up_ && has_output()) flush();
  return false;
}

bool OfiEndpoint::take() {
  if (!up_) return false;
  bool any = false;
  ask_ = true;
  armed_ = false;
  // A batch that is not full has emptied the queue: what comes after it is asked for in the next turn,
  // when what is here has been answered. Where nothing tells, asking is what moves things.
  std::array<FabricPort::Completion, 16> completions;
  emptied_ = false;
  for (int reaped = 0; reaped < kReapsPerTurn && !emptied_ && !is_fenced(); ++reaped) {
    const ssize_t count = port_->reap(completions.data(), completions.size());
    if (count < 0) {
      fail("asking for completions", count);
      return true;
    }
    if (count == 0) {
      ask_ = false;
      break;
    }
    any = true;
    emptied_ = port_->tells() && static_cast<size_t>(count) < completions.size();
    active_at_ = loop_.clock().now();
    ++counters_.receive_calls;
    for (ssize_t i = 0; i < count && up_ && !is_fenced(); ++i) {
      on_completion(completions[static_cast<size_t>(i)]);
    }
    if (!up_) return true;
  }
  if (!is_fenced()) watch_writes();
  for (size_t left = unposted_.size(); left > 0 && !is_fenced(); --left) {
    const uint16_t index = unposted_.back();
    unposted_.pop_back();
    if (const Status status = post_receive(index); !status) {
      quiesce(status);
      return true;
    }
  }
  if (any || has_output()) {
    flush();
    if (any && has_room()) events_.on_room(*this);
  }
  return any;
}

progress::Polled::Sleep OfiEndpoint::may_sleep() {
  if (is_fenced()) return Sleep::no;
  if (port_->wait_fd() < 0) {
    const bool expecting = loop_.clock().now() - active_at_ < kExpecting;
    return expecting ? Sleep::no : Sleep::briefly;
  }
  // Before every sleep, however short: what made the descriptor ready is forgotten by this alone, so that
  // without it the sleep would end at once, for ever.
  if (!armed_ && !port_->may_wait()) {
    ask_ = true;
    return Sleep::no;
  }
  armed_ = port_->tells();
  return unposted_.empty() ? Sleep::until_woken : Sleep::briefly;
}

// Only where wire and processor are far apart: a payload has to take long, though the last ones did not
// wait for anything.
Nanoseconds OfiEndpoint::gathers() {
  const Nanoseconds pause = std::min(payload_takes_ / kLooksPerPayload, kGatherMost);
  const bool asked = !ask_ || emptied_;
  const bool idle = up_ && !is_fenced() && asked && !has_output() && port_->tells();
  return idle && arriving_ > 0 && pause >= kGatherLeast ? pause : 0;
}

void OfiEndpoint::on_completion(const FabricPort::Completion& completion) {
  if (completion.error != 0) return on_failed(completion);
  if (completion.operation == nullptr) return on_written(completion.data);
  const size_t index = completion.operation->index;
  switch (completion.operation->kind) {
    case FabricOperation::Kind::send:
      (index < kSends ? free_sends_ : free_long_sends_).push_back(static_cast<uint16_t>(index));
      return;
    case FabricOperation::Kind::write:
      return on_written_there(outgoing_[index]);
    case FabricOperation::Kind::receive:
      break;
  }
  on_message({receive_buffer(index), completion.bytes}, index >= kReceives);
  if (is_fenced()) return;
  if (const Status status = post_receive(index); !status) quiesce(status);
}

// Messages that do not fit a buffer are a stranger's; a write of a stranger's that was refused is its own
// affair.
void OfiEndpoint::on_failed(const FabricPort::Completion& completion) {
  if (completion.operation == nullptr) return;
  if (completion.operation->kind == FabricOperation::Kind::receive) {
    if (const Status status = post_receive(completion.operation->index); !status) quiesce(status);
    return;
  }
  fail(completion.operation->kind == FabricOperation::Kind::send ? "send" : "write",
       completion.error);
}

void OfiEndpoint::on_written_there(Outgoing& outgoing) {
  FabricRail::forget(outgoing.region);
  outgoing.state = Outgoing::State::written;
  outgoing.copy.clear();
  free_landed();
  release_acknowledged();
}

void OfiEndpoint::on_message(std::span<const std::byte> message, bool is_long) {
  OfiPreamble preamble;
  if (!decode(message, options_.token_in, &preamble)) return;
  if (preamble.number != messages_received_) {
    return quiesce(error(Code::peer_lost, "rank %d: messages were lost on %s, whose connection broke and "
                         "was made again beneath", peer, name_.c_str()));
  }
  ++messages_received_;
  if (is_long) ++longs_taken_;
  writes_said_ = preamble.writes;
  heard_at_ = active_at_;
  counters_.bytes_received += message.size() - kPreambleBytes;
  if (preamble.credits - credited_ > sent_ - credited_) {
    return break_protocol("took in more frames than were sent");
  }
  if (preamble.landed - delivered_ > begun_ - delivered_) {
    return break_protocol("says that more frames landed than were sent");
  }
  const auto longs_credited = static_cast<uint16_t>(preamble.longs - longs_credited_);
  if (longs_credited > static_cast<uint16_t>(longs_sent_ - longs_credited_)) {
    return break_protocol("took in more long messages than were sent");
  }
  credit(preamble.credits);
  longs_credited_ = preamble.longs;
  delivered_ = preamble.landed;
  drain_.heard(preamble.sent_at, preamble.least, active_at_);
  drain_.landed(delivered_, preamble.sent_at - preamble.landed_before_us * kMicrosecond, active_at_);
  if (delivered_ == begun_) drain_.rests();
  free_landed();
  if (told_by_message_) on_told(preamble.writes);
  if (!up_ || is_fenced()) return;
  const auto body = message.subspan(kPreambleBytes);
  switch (preamble.kind) {
    case OfiMessageKind::frames:
      return on_frames(body, preamble.crc);
    case OfiMessageKind::announce:
      return on_announce(body, preamble.crc);
    case OfiMessageKind::grant:
      return on_grant(preamble, body);
    case OfiMessageKind::credit:
      return;
  }
}

bool OfiEndpoint::read_header(std::span<const std::byte> body, wire::FrameHeader* header) {
  if (body.size() < wire::kHeaderBytes) {
    break_protocol("sent half a header");
    return false;
  }
  const wire::HeaderError refusal = wire::decode(body.first<wire::kHeaderBytes>(), header);
  if (refusal == wire::HeaderError::none) return true;
  quiesce(error(Code::internal, "rank %d sent a bad frame on %s: %s", peer, name_.c_str(),
                std::string(wire::name_of(refusal)).c_str()));
  return false;
}

void OfiEndpoint::on_frames(std::span<const std::byte> body, uint32_t crc) {
  wire::FrameHeader header;
  if (!read_header(body, &header) || !check(header, body, crc)) return;
  while (up_ && !is_fenced() && !body.empty()) {
    if (!read_header(body, &header)) return;
    body = body.subspan(wire::kHeaderBytes);
    if (body.size() < header.length) return break_protocol("sent a frame of another length than it says");
    const auto payload = body.first(header.length);
    body = body.subspan(header.length);
    untold_bytes_ += wire::kHeaderBytes + header.length;
    handle_ack(header);
    if (!up_ || is_fenced()) return;
    if (header.type != wire::FrameType::data) {
      ++taken_;
      on_control(header, payload);
      continue;
    }
    Incoming* const arrived = place(header);
    if (arrived == nullptr) return;
    if (arrived->landing.destination != nullptr && !payload.empty()) {
      std::memcpy(arrived->landing.destination, payload.data(), payload.size());
    }
    arrived->complete = true;
    deliver();
  }
}

void OfiEndpoint::on_announce(std::span<const std::byte> body, uint32_t crc) {
  wire::FrameHeader header;
  if (!read_header(body, &header)) return;
  if (body.size() != wire::kHeaderBytes || header.type != wire::FrameType::data ||
      header.length <= eager_bytes_) {
    return break_protocol("announced what goes with its header");
  }
  handle_ack(header);
  if (!up_ || is_fenced()) return;
  Incoming* const arrived = place(header);
  if (arrived == nullptr) return;
  arrived->crc = crc;
  arrived->is_written = true;
  grant(*arrived);
  if (up_) deliver();
}

bool OfiEndpoint::check(const wire::FrameHeader& header, std::span<const std::byte> bytes, uint32_t crc) {
  if (crc_of(bytes) == crc || !options_.payload_checksum) return true;
  quiesce(error(Code::internal, "payload checksum: %zu bytes from rank %d (op %llu, chunk %u) were "
                "changed on the way on %s; check that network's cables, devices and offloads",
                bytes.size(), peer, static_cast<unsigned long long>(header.op_seq), header.chunk,
                name_.c_str()));
  return false;
}

OfiEndpoint::Incoming* OfiEndpoint::place(const wire::FrameHeader& header) {
  if (incoming_count_ == kSlots) {
    break_protocol("sent more frames than were allowed");
    return nullptr;
  }
  const Landing landing = events_.on_frame(*this, header);
  if (landing.refused) {
    quiesce(error(Code::internal, "rank %d broke the protocol on %s: op %llu, chunk %u, stage %u", peer,
                  name_.c_str(), static_cast<unsigned long long>(header.op_seq), header.chunk,
                  header.stage));
  }
  if (!up_) return nullptr;
  Incoming& arrived = incoming(incoming_count_++);
  arrived = Incoming();
  arrived.header = header;
  arrived.landing = landing;
  return is_fenced() ? nullptr : &arrived;
}

// The newest.
void OfiEndpoint::grant(Incoming& arrived) {
  PendingGrant& pending = grants_[(grants_first_ + grants_count_++) % kSlots];
  pending.grant = {landed_ + incoming_count_ - 1, 0, 0};
  pending.wanted = arrived.landing.destination != nullptr;
  arrived.complete = !pending.wanted;
  if (!pending.wanted) return;
  RemoteMemory memory;
  const Status status = port_->rail().register_target(arrived.landing.destination, arrived.header.length,
                                              &arrived.region, &memory);
  if (!status) return quiesce(status);
  pending.grant.address = memory.address;
  pending.grant.key = memory.key;
}

bool OfiEndpoint::flush_grants() {
  while (grants_count_ > 0) {
    if (free_sends_.empty()) return true;
    const PendingGrant& pending = grants_[grants_first_];
    constexpr size_t kBody = kGrantBytes - kPreambleBytes;
    encode(pending.grant, next_body(kBody));
    if (!send(OfiMessageKind::grant, kBody, 0, pending.wanted)) return false;
    if (pending.wanted && arriving_++ == 0) arriving_since_ = loop_.clock().now();
    grants_first_ = (grants_first_ + 1) % kSlots;
    --grants_count_;
  }
  return true;
}

void OfiEndpoint::on_grant(const OfiPreamble& preamble, std::span<const std::byte> body) {
  OfiGrant grant;
  if (!decode(body, &grant)) return break_protocol("sent half a grant");
  Outgoing* const outgoing = find_outgoing(grant.number);
  if (outgoing == nullptr || outgoing->state != Outgoing::State::announced) {
    return break_protocol("granted memory for a frame that was not announced");
  }
  if (!preamble.wanted) return on_written_there(*outgoing);
  outgoing->target = {grant.address, grant.key};
  outgoing->state = Outgoing::State::granted;
}

// Low half: the frame's number; high half, where the provider carries it, and mask: what only the peer
// knows. Strangers can write nothing without a key, but a write of nothing has a word, too.
uint64_t OfiEndpoint::word_of(uint32_t number, uint64_t token) const {
  const uint64_t word = token ^ number;
  return has_wide_words_ ? word : word & 0xFFFFFFFF;
}

void OfiEndpoint::on_written(uint64_t data) {
  const auto number = static_cast<uint32_t>(data ^ options_.token_in);
  const uint32_t index = number - landed_;
  if (data != word_of(number, options_.token_in) || index >= incoming_count_) return;
  Incoming& arrived = incoming(index);
  if (!arrived.is_written || arrived.complete || arrived.landing.destination == nullptr) return;
  heard_at_ = active_at_;
  overtaken_at_ = 0;
  on_landed(arrived);
}

// Where messages do not overtake writes, and writes go in the order of their grants.
void OfiEndpoint::on_told(uint16_t writes) {
  while (up_ && !is_fenced() && writes_received_ != writes) {
    uint32_t index = 0;
    const auto is_awaited = [&](const Incoming& each) {
      return each.is_written && !each.complete && each.landing.destination != nullptr;
    };
    while (index < incoming_count_ && !is_awaited(incoming(index))) ++index;
    const bool granted = index < incoming_count_ &&
                         (grants_count_ == 0 || static_cast<int32_t>(
                             landed_ + index - grants_[grants_first_].grant.number) < 0);
    if (!granted) return break_protocol("tells of a write that was not granted");
    on_landed(incoming(index));
  }
}

void OfiEndpoint::on_landed(Incoming& arrived) {
  const Nanoseconds took = std::min(heard_at_ - arriving_since_, kLooksPerPayload * kGatherMost);
  payload_takes_ += (took - payload_takes_) / 8;
  arriving_since_ = heard_at_;
  --arriving_;
  ++writes_received_;
  FabricRail::forget(arrived.region);
  counters_.bytes_received += arrived.header.length;
  const std::span<const std::byte> payload(arrived.landing.destination, arrived.header.length);
  if (!check(arrived.header, payload, arrived.crc)) return;
  arrived.complete = true;
  news_ = true;
  deliver();
}

void OfiEndpoint::watch_writes() {
  if (static_cast<int16_t>(writes_said_ - writes_received_) <= 0) {
    overtaken_at_ = 0;
    return;
  }
  const Nanoseconds now = loop_.clock().now();
  if (overtaken_at_ == 0) overtaken_at_ = now;
  if (now - overtaken_at_ < kWritePatience) return;
  quiesce(error(Code::peer_lost, "rank %d: a write was lost on %s, whose connection broke and was made "
                "again beneath", peer, name_.c_str()));
}

void OfiEndpoint::deliver() {
  while (up_ && !is_fenced() && incoming_count_ > 0 && incoming(0).complete) {
    const wire::FrameHeader header = incoming(0).header;
    const Landing landing = incoming(0).landing;
    incoming_first_ = (incoming_first_ + 1) % kSlots;
    --incoming_count_;
    ++landed_;
    landed_at_ = active_at_;
    ++taken_;
    landed_bytes_ += header.length;
    ++counters_.frames_received;
    events_.on_landed(*this, header, landing);
  }
  if (up_ && !is_fenced() && goodbye_received_ && incoming_count_ == 0) {
    quiesce(error(Code::peer_lost, "rank %d left on %s", peer, name_.c_str()));
  }
}

void OfiEndpoint::on_control(const wire::FrameHeader& header, std::span<const std::byte> payload) {
  const std::string text(reinterpret_cast<const char*>(payload.data()), payload.size());
  switch (header.type) {
    case wire::FrameType::failure:
      return events_.on_failure(*this, header, text);
    case wire::FrameType::goodbye:
      goodbye_received_ = true;
      return deliver();
    case wire::FrameType::ack:
      return;
    default:
      events_.on_control(*this, header, text);
  }
}

void OfiEndpoint::handle_ack(const wire::FrameHeader& header) {
  const uint32_t newly = header.ack - acknowledged_;
  if (newly > begun_ - acknowledged_) {
    return quiesce(error(Code::internal, "rank %d acknowledged %u frames on %s, but only %u are out",
                         peer, newly, name_.c_str(), begun_ - acknowledged_));
  }
  acknowledged_ = header.ack;
  release_acknowledged();
  if (up_ && (header.type == wire::FrameType::data || header.type == wire::FrameType::ack)) {
    events_.on_credit(*this, header.comm, header.credit);
  }
}

}  // namespace nezha::transport
