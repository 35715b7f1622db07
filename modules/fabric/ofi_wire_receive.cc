// The receiving half of OfiWire: completions, messages, and payloads that the peer has written.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/copy.h"
#include "fabric/ofi_wire.h"

namespace nezha::transport {

Status OfiWire::post_receive(size_t index) {
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

// ------------------------------------------------------------------------------- what the loop asks

bool OfiWire::poll() {
  const bool may_hold = queue_ == Queue::unknown || queue_ == Queue::emptied;
  if (!is_fenced()) {  // it has a port
    if (may_hold || stalled_ || !unposted_.empty() || !port_->tells()) return take_completions();
    watch_writes();
  }
  if (events_->has_output()) events_->on_ready();
  return false;
}

bool OfiWire::take_completions() {
  if (is_fenced()) return false;
  enter(Queue::unknown);
  const bool any = reap();
  if (!is_fenced()) watch_writes();
  for (size_t left = unposted_.size(); left > 0 && !is_fenced(); --left) {
    const uint16_t index = unposted_.back();
    unposted_.pop_back();
    if (const Status status = post_receive(index); !status) {
      events_->on_broken(status);
      return true;
    }
  }
  if (any || events_->has_output()) events_->on_ready();
  return any;
}

// A batch that is not full has emptied the queue: later completions are asked for in the next turn,
// after these have been answered. Where no descriptor tells of completions, asking is what makes
// the provider progress.
bool OfiWire::reap() {
  bool any = false;
  std::array<FabricPort::Completion, 16> completions;
  for (int reaped = 0; reaped < kReapsPerTurn && queue_ == Queue::unknown && !is_fenced(); ++reaped) {
    const ssize_t count = port_->reap(completions.data(), completions.size());
    if (count < 0) {
      fail("asking for completions", count);
      return true;
    }
    if (count == 0) {
      enter(Queue::quiet);
      break;
    }
    any = true;
    if (port_->tells() && static_cast<size_t>(count) < completions.size()) enter(Queue::emptied);
    active_at_ = loop_.clock().now();
    ++receive_calls_;
    for (ssize_t i = 0; i < count && !is_fenced(); ++i) {
      on_completion(completions[static_cast<size_t>(i)]);
    }
  }
  return any;
}

progress::Polled::Sleep OfiWire::may_sleep() {
  if (is_fenced()) return Sleep::no;
  if (port_->wait_fd() < 0) {
    const bool expecting = loop_.clock().now() - active_at_ < kExpecting;
    return expecting ? Sleep::no : Sleep::briefly;
  }
  // may_wait() precedes every sleep, however short: only it clears the readiness of the descriptor,
  // and without it every sleep would end at once.
  if (queue_ != Queue::armed) {
    if (!port_->may_wait()) {
      enter(Queue::unknown);
      return Sleep::no;
    }
    if (port_->tells()) enter(Queue::armed);
  }
  return unposted_.empty() ? Sleep::until_woken : Sleep::briefly;
}

// Only where wire and processor are far apart: a payload has to take long, though the last ones did not
// wait for anything.
Nanoseconds OfiWire::gathers() {
  const Nanoseconds pause = std::min(payload_takes_ / kLooksPerPayload, kGatherMost);
  const bool asked = queue_ != Queue::unknown;
  const bool idle = !is_fenced() && asked && !events_->has_output() && port_->tells();
  return idle && arriving_ > 0 && pause >= kGatherLeast ? pause : 0;
}

void OfiWire::watch_writes() {
  if (static_cast<int16_t>(writes_said_ - writes_received_) <= 0) {
    overtaken_at_ = 0;
    return;
  }
  const Nanoseconds now = loop_.clock().now();
  if (overtaken_at_ == 0) overtaken_at_ = now;
  if (now - overtaken_at_ < kWritePatience) return;
  events_->on_broken(error(Code::peer_lost, "a write was lost on %s, because the provider's connection "
                           "broke and was made again", name_.c_str()));
}

// ------------------------------------------------------------------------------------- completions

void OfiWire::on_completion(const FabricPort::Completion& completion) {
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
  if (const Status status = post_receive(index); !status) events_->on_broken(status);
}

// A receive fails for a message that does not fit its buffer, which is a stranger's. An error
// without an operation is a write of a stranger that was refused, and concerns only the stranger.
void OfiWire::on_failed(const FabricPort::Completion& completion) {
  if (completion.operation == nullptr) return;
  if (completion.operation->kind == FabricOperation::Kind::receive) {
    if (const Status status = post_receive(completion.operation->index); !status) {
      events_->on_broken(status);
    }
    return;
  }
  fail(completion.operation->kind == FabricOperation::Kind::send ? "send" : "write",
       completion.error);
}

void OfiWire::on_written_there(Outgoing& outgoing) {
  FabricRail::forget(outgoing.region);
  outgoing.enter(Outgoing::State::written);
  outgoing.copy.clear();
  free_landed();
  events_->on_freed();
}

// ---------------------------------------------------------------------------------------- messages

void OfiWire::on_message(std::span<const std::byte> message, bool is_long) {
  OfiPreamble preamble;
  if (!decode(message, tokens_.in, &preamble)) return;
  if (preamble.number != messages_received_) {
    return events_->on_broken(error(Code::peer_lost, "messages were lost on %s, because the provider's "
                                    "connection broke and was made again", name_.c_str()));
  }
  ++messages_received_;
  if (is_long) ++longs_taken_;
  if (!take_preamble(preamble)) return;
  const auto body = message.subspan(kPreambleBytes);
  switch (preamble.kind) {
    case OfiMessageKind::frames:
      return on_frames(body);
    case OfiMessageKind::announce:
      return on_announce(body);
    case OfiMessageKind::grant:
      return on_grant(preamble, body);
    case OfiMessageKind::credit:
      return;
  }
}

bool OfiWire::take_preamble(const OfiPreamble& preamble) {
  writes_said_ = preamble.writes;
  heard_at_ = active_at_;
  const auto longs_credited = static_cast<uint16_t>(preamble.longs - longs_credited_);
  const char* const wrong =
      preamble.credits - credited_ > sent_ - credited_ ? "took in more frames than were sent"
      : preamble.landed - delivered_ > begun_ - delivered_ ? "says that more frames landed than were sent"
      : longs_credited > static_cast<uint16_t>(longs_sent_ - longs_credited_)
          ? "took in more long messages than were sent"
          : nullptr;
  if (wrong != nullptr) {
    break_protocol(wrong);
    return false;
  }
  credit(preamble.credits);
  longs_credited_ = preamble.longs;
  delivered_ = preamble.landed;
  drain_.on_preamble(preamble.sent_at, preamble.least, active_at_);
  drain_.landed(delivered_, preamble.sent_at - preamble.landed_before_us * kMicrosecond, active_at_);
  if (delivered_ == begun_) drain_.rests();
  free_landed();
  if (told_by_message_) on_told(preamble.writes);
  return !is_fenced();
}

void OfiWire::on_frames(std::span<const std::byte> body) {
  while (!is_fenced() && !body.empty()) {
    if (body.size() < wire::kHeaderBytes) return break_protocol("sent half a header");
    Arrival* const arrival = events_->on_header(body.data());
    if (arrival == nullptr) return;
    body = body.subspan(wire::kHeaderBytes);
    const size_t rest = arrival->length + arrival->trailer_length;
    if (body.size() < rest) return break_protocol("sent a frame of another length than it says");
    if (arrival->destination != nullptr) copy_bytes(arrival->destination, body.data(), arrival->length);
    std::memcpy(arrival->trailer.data(), body.data() + arrival->length, arrival->trailer_length);
    body = body.subspan(rest);
    untold_bytes_ += wire::kHeaderBytes + rest;
    if (arrival->is_data) {
      ++next_incoming_;
    } else {
      ++controls_taken_;
    }
    pass_on(*arrival);
  }
}

void OfiWire::on_announce(std::span<const std::byte> body) {
  if (body.size() < wire::kHeaderBytes) return break_protocol("sent half a header");
  Arrival* const arrival = events_->on_header(body.data());
  if (arrival == nullptr) return;
  if (!arrival->is_data || arrival->length <= eager_bytes_ ||
      body.size() != wire::kHeaderBytes + arrival->trailer_length) {
    return break_protocol("announced what goes with its header");
  }
  if (grants_count_ == kAnnounced) return break_protocol("announced more frames than it may");
  ++next_incoming_;
  std::memcpy(arrival->trailer.data(), &body[wire::kHeaderBytes], arrival->trailer_length);
  grant(*arrival);
}

void OfiWire::grant(Arrival& arrival) {
  PendingGrant& pending = grants_[(grants_first_ + grants_count_++) % kAnnounced];
  pending.grant = {arrival.number, 0, 0};
  pending.wanted = arrival.destination != nullptr;
  if (!pending.wanted) return pass_on(arrival);
  Incoming& target = incoming(arrival.number);
  target.enter(Incoming::State::waiting);
  target.arrival = &arrival;
  RemoteMemory memory;
  const Status status = port_->rail().register_target(arrival.destination, arrival.length,
                                                      &target.region, &memory);
  if (!status) return events_->on_broken(status);
  pending.grant.address = memory.address;
  pending.grant.key = memory.key;
}

bool OfiWire::flush_grants() {
  while (grants_count_ > 0) {
    if (free_sends_.empty()) return true;
    const PendingGrant& pending = grants_[grants_first_];
    constexpr size_t kBody = kGrantBytes - kPreambleBytes;
    encode(pending.grant, next_body(kBody));
    if (!send_message(OfiMessageKind::grant, kBody, pending.wanted)) return false;
    if (pending.wanted) incoming(pending.grant.number).enter(Incoming::State::granted);
    if (pending.wanted && arriving_++ == 0) arriving_since_ = loop_.clock().now();
    grants_first_ = (grants_first_ + 1) % kAnnounced;
    --grants_count_;
  }
  return true;
}

void OfiWire::on_grant(const OfiPreamble& preamble, std::span<const std::byte> body) {
  OfiGrant grant;
  if (!decode(body, &grant)) return break_protocol("sent half a grant");
  Outgoing* const outgoing = find_outgoing(grant.number);
  if (outgoing == nullptr || outgoing->state != Outgoing::State::announced) {
    return break_protocol("granted memory for a frame that was not announced");
  }
  if (!preamble.wanted) return on_written_there(*outgoing);
  outgoing->target = {grant.address, grant.key};
  outgoing->enter(Outgoing::State::granted);
}

// ------------------------------------------------------------------------------------------ writes

// The low half is the frame's number, masked by the token; the high half, where the provider
// carries it, is from the token, which only the peer knows. Strangers can write nothing without a
// key, but a write of no bytes brings completion data, too.
uint64_t OfiWire::word_of(uint32_t number, uint64_t token) const {
  const uint64_t word = token ^ number;
  return has_wide_words_ ? word : word & 0xFFFFFFFF;
}

void OfiWire::on_written(uint64_t data) {
  const auto number = static_cast<uint32_t>(data ^ tokens_.in);
  Incoming& target = incoming(number);
  const bool is_awaited =
      target.state == Incoming::State::granted && target.arrival->number == number;
  if (!is_awaited || data != word_of(number, tokens_.in)) return;
  heard_at_ = active_at_;
  overtaken_at_ = 0;
  on_landed(target);
}

// Called where messages tell of writes: there messages do not overtake writes, and writes go in the
// order of their grants.
void OfiWire::on_told(uint16_t writes) {
  while (!is_fenced() && writes_received_ != writes) {
    uint32_t number = next_incoming_ - kSlots;
    while (number != next_incoming_ && incoming(number).state == Incoming::State::free) ++number;
    if (number == next_incoming_ || incoming(number).state != Incoming::State::granted) {
      return break_protocol("tells of a write that was not granted");
    }
    on_landed(incoming(number));
  }
}

void OfiWire::on_landed(Incoming& incoming) {
  const Nanoseconds took = std::min(heard_at_ - arriving_since_, kLooksPerPayload * kGatherMost);
  payload_takes_ += (took - payload_takes_) / 8;
  arriving_since_ = heard_at_;
  --arriving_;
  ++writes_received_;
  FabricRail::forget(incoming.region);
  news_ = true;
  incoming.enter(Incoming::State::free);
  pass_on(*std::exchange(incoming.arrival, nullptr));
}

void OfiWire::pass_on(Arrival& arrival) {
  const uint32_t before = events_->landed_frames();
  if (!events_->on_arrived(arrival)) return;
  if (events_->landed_frames() != before) landed_at_ = active_at_;
  if (events_->has_peer_left()) {
    events_->on_broken(error(Code::peer_lost, "the peer left on %s", name_.c_str()));
  }
}

}  // namespace nezha::transport
