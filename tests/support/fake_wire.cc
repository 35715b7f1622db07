#include "support/fake_wire.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace nezha::transport {

// ------------------------------------------------------------------------------------- the link

std::shared_ptr<FakeLink> FakeLink::create(size_t capacity_frames, FakeNetwork* network) {
  return std::shared_ptr<FakeLink>(new FakeLink(capacity_frames, network));
}

std::unique_ptr<Wire> FakeLink::wire(int side, Nanoseconds now) {
  auto made = std::make_unique<FakeWire>(shared_from_this(), side, now);
  sides_[static_cast<size_t>(side)] = made.get();
  return made;
}

std::unique_ptr<Connection> FakeLink::connect(int side, ConnectionEvents& events, Nanoseconds now) {
  auto made = std::make_unique<Connection>(events, wire(side, now), ConnectionOptions{});
  const Status started = made->start();
  return started ? std::move(made) : nullptr;
}

bool FakeLink::has_news(int to) const {
  const FakeWire* receiver = sides_[static_cast<size_t>(to)];
  if (receiver == nullptr) return false;
  return under_way(to) > 0 || receiver->is_receiving() || gone_[static_cast<size_t>(1 - to)];
}

Status FakeLink::peer_gone() const {
  return error(Code::peer_lost, "connection %d was closed by the peer", id);
}

size_t FakeLink::deliver(int to, size_t frames) {
  FakeWire* const& receiver = sides_[static_cast<size_t>(to)];
  std::deque<Frame>& coming = towards_[static_cast<size_t>(to)];
  size_t arrived = 0;
  const bool reset = reset_[static_cast<size_t>(1 - to)];
  while (receiver != nullptr && arrived < frames && !reset) {
    if (!receiver->is_receiving()) {
      if (coming.empty()) break;
      Frame frame = std::move(coming.front());
      coming.pop_front();
      receiver->arrive(std::move(frame));
    }
    if (receiver != nullptr) receiver->finish();
    ++arrived;
  }
  if (receiver != nullptr && coming.empty() && arrived < frames && gone_[static_cast<size_t>(1 - to)]) {
    receiver->events_->on_broken(peer_gone());
  }
  if (arrived > 0) push(1 - to);
  return arrived;
}

void FakeLink::push(int from) {
  FakeWire* const sender = sides_[static_cast<size_t>(from)];
  if (sender != nullptr && sender->events_->has_output()) sender->events_->on_ready();
}

void FakeLink::send(int from, Frame frame) {
  const int to = 1 - from;
  std::deque<Frame>& coming = towards_[static_cast<size_t>(to)];
  if (network_ == nullptr) return coming.push_back(std::move(frame));
  wire::FrameHeader header;
  const bool sound = wire::decode(frame.header, &header) == wire::HeaderError::none;
  network_->admit(*this, to, frame);
  coming.push_back(std::move(frame));
  network_->tamper(*this, to, coming);
  if (!sound) return;
  if (header.type == wire::FrameType::data) {
    unacknowledged_[static_cast<size_t>(from)].push_back(header);
  }
  saw(to, header, FakeMoment::sent);
}

// A frame with an acknowledgement arrives at `to`.
void FakeLink::see_acknowledged(int to, const wire::FrameHeader& header) {
  const auto side = static_cast<size_t>(to);
  auto& waiting = unacknowledged_[side];
  for (uint32_t newly = header.ack - acknowledged_[side]; newly > 0 && !waiting.empty(); --newly) {
    saw(1 - to, waiting.front(), FakeMoment::released);
    waiting.pop_front();
    ++acknowledged_[side];
  }
}

void FakeLink::end(int from, bool given_up) {
  const auto to = static_cast<size_t>(1 - from);
  if (gone_[static_cast<size_t>(from)]) return;
  gone_[static_cast<size_t>(from)] = true;
  if (given_up && network_ == nullptr) {
    reset_[static_cast<size_t>(from)] = true;
    towards_[to].clear();
  }
  if (network_ == nullptr) return;
  end_due_[to] = network_->end_heard(*this, 1 - from);
  if (!given_up) return;
  const size_t left = network_->survivors(*this, 1 - from, towards_[to].size());
  reset_[static_cast<size_t>(from)] = left == 0;
  towards_[to].resize(std::min(left, towards_[to].size()));
}

Nanoseconds FakeLink::next_due(int to) const {
  const auto index = static_cast<size_t>(to);
  const FakeWire* receiver = sides_[index];
  if (receiver == nullptr) return kNever;
  const bool reset = reset_[static_cast<size_t>(1 - to)];
  if (receiver->is_receiving() && !reset) return receiver->arriving_.end_due;
  if (!towards_[index].empty()) return towards_[index].front().header_due;
  return gone_[static_cast<size_t>(1 - to)] ? end_due_[index] : kNever;
}

Nanoseconds FakeLink::received_at(int to, Nanoseconds not_before, Nanoseconds now) const {
  Nanoseconds latest = read_at_[static_cast<size_t>(to)];
  for (const Frame& frame : towards_[static_cast<size_t>(to)]) {
    const Nanoseconds due = std::max(frame.end_due, not_before);
    if (due > now) break;
    latest = std::max(latest, due);
  }
  return latest;
}

void FakeLink::deliver_next(int to, Nanoseconds now) {
  FakeWire* const& receiver = sides_[static_cast<size_t>(to)];
  read_at_[static_cast<size_t>(to)] = now;
  std::deque<Frame>& coming = towards_[static_cast<size_t>(to)];
  receiver->now_ = now;
  const bool reset = reset_[static_cast<size_t>(1 - to)];
  if (reset || (!receiver->is_receiving() && coming.empty())) {
    return receiver->events_->on_broken(peer_gone());
  }
  wire::FrameHeader header;
  if (!receiver->is_receiving()) {
    Frame frame = std::move(coming.front());
    coming.pop_front();
    const size_t half = frame.payload.size() / 2;
    receiver->arrive(std::move(frame));
    if (receiver == nullptr) return;
    if (half > 0) {
      receiver->land(half);
      const bool sound = wire::decode(receiver->arriving_.header, &header) == wire::HeaderError::none;
      if (sound) saw(to, header, FakeMoment::half_landed);
      return;
    }
  }
  const bool sound = wire::decode(receiver->arriving_.header, &header) == wire::HeaderError::none;
  receiver->finish();
  if (sound) saw(to, header, FakeMoment::landed);
}

void FakeLink::deliver_half(int to) {
  FakeWire* const& receiver = sides_[static_cast<size_t>(to)];
  std::deque<Frame>& coming = towards_[static_cast<size_t>(to)];
  if (receiver == nullptr || receiver->is_receiving() || coming.empty()) return;
  Frame frame = std::move(coming.front());
  coming.pop_front();
  const size_t half = frame.payload.size() / 2;
  receiver->arrive(std::move(frame));
  if (receiver != nullptr) receiver->land(half);
}

void FakeLink::inject(int to, const wire::FrameHeader& header) {
  Frame frame;
  wire::encode(header, frame.header);
  frame.payload.resize(header.length);
  send(1 - to, std::move(frame));
}

void FakeLink::cut() {
  for (std::deque<Frame>& coming : towards_) coming.clear();
  for (FakeWire* const& side : sides_) {
    if (side == nullptr) continue;
    side->events_->on_broken(error(Code::peer_lost, "the test cut connection %d", id));
  }
}

uint64_t FakeLink::bytes_from(int side) const {
  uint64_t bytes = 0;
  for (const Frame& frame : towards_[static_cast<size_t>(1 - side)]) {
    bytes += wire::kHeaderBytes + frame.payload.size();
  }
  return bytes;
}

// -------------------------------------------------------------------------------------- the wire

FakeWire::FakeWire(std::shared_ptr<FakeLink> link, int side, Nanoseconds now)
    : Wire("fake connection " + std::to_string(link->id)), link_(std::move(link)), side_(side), now_(now),
      heard_at_(now) {}

// What is under way still arrives, as with a socket that is closed in order.
FakeWire::~FakeWire() { close(true); }

Status FakeWire::start(WireEvents& events) {
  events_ = &events;
  return Status::ok();
}

// Control frames find room always.
size_t FakeWire::send(std::span<WorkRequest* const> frames) {
  size_t taken = 0;
  for (; taken < frames.size(); ++taken) {
    const WorkRequest& request = *frames[taken];
    if (request.header.type == wire::FrameType::data && !link_->has_room(side_)) break;
    FakeFrame frame;
    frame.header = request.header_bytes;
    frame.payload.assign(request.data, request.data + request.header.length);
    link_->send(side_, std::move(frame));
  }
  return taken;
}

void FakeWire::arrive(FakeFrame frame) {
  arriving_ = std::move(frame);
  heard_at_ = now_;
  payload_done_ = 0;
  wire::FrameHeader header;
  if (wire::decode(arriving_.header, &header) == wire::HeaderError::none) {
    link_->see_acknowledged(side_, header);
  }
  Arrival* const arrival = events_->on_header(arriving_.header.data());
  if (link_->is_open(side_)) arrival_ = arrival;
}

void FakeWire::land(size_t bytes) {
  const size_t take = std::min(bytes, arriving_.payload.size() - payload_done_);
  if (arrival_ != nullptr && arrival_->destination != nullptr && take > 0) {
    std::memcpy(arrival_->destination + payload_done_, arriving_.payload.data() + payload_done_, take);
  }
  payload_done_ += take;
}

void FakeWire::finish() {
  land(arriving_.payload.size());
  if (arrival_ != nullptr) events_->on_arrived(*std::exchange(arrival_, nullptr));
}

void FakeWire::close(bool in_order) {
  if (!link_->is_open(side_)) return;
  link_->sides_[static_cast<size_t>(side_)] = nullptr;
  arrival_ = nullptr;
  // Bytes of a connection that was given up do not arrive later, as far as this host can help it.
  link_->end(side_, !in_order);
}

}  // namespace nezha::transport
