#include "transport/fake/fake_endpoint.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace nezha::transport {

// ------------------------------------------------------------------------------------- the link

std::shared_ptr<FakeLink> FakeLink::create(size_t capacity_frames, FakeNetwork* network) {
  return std::shared_ptr<FakeLink>(new FakeLink(capacity_frames, network));
}

std::unique_ptr<FakeEndpoint> FakeLink::connect(int side, ConnectionEvents& events, Nanoseconds now) {
  std::unique_ptr<FakeEndpoint> connection(new FakeEndpoint(shared_from_this(), side, events, now));
  sides_[static_cast<size_t>(side)] = connection.get();
  return connection;
}

bool FakeLink::has_news(int to) const {
  const FakeEndpoint* receiver = sides_[static_cast<size_t>(to)];
  if (receiver == nullptr || !receiver->up_) return false;
  return under_way(to) > 0 || receiver->receiving_ || gone_[static_cast<size_t>(1 - to)];
}

size_t FakeLink::deliver(int to, size_t frames) {
  FakeEndpoint* const receiver = sides_[static_cast<size_t>(to)];
  std::deque<Frame>& wire = towards_[static_cast<size_t>(to)];
  size_t arrived = 0;
  const bool reset = reset_[static_cast<size_t>(1 - to)];
  while (receiver != nullptr && receiver->up_ && arrived < frames && !reset) {
    if (!receiver->receiving_) {
      if (wire.empty()) break;
      Frame frame = std::move(wire.front());
      wire.pop_front();
      receiver->arrive(std::move(frame));
    }
    if (receiver->up_) {
      receiver->land(receiver->arriving_.payload.size());
      receiver->finish_frame();
    }
    ++arrived;
  }
  if (receiver != nullptr && receiver->up_ && wire.empty() && arrived < frames &&
      gone_[static_cast<size_t>(1 - to)]) {
    receiver->quiesce(error(Code::peer_lost, "connection %s was closed by the peer",
                            receiver->describe().c_str()));
  }
  if (arrived > 0) push(1 - to);
  return arrived;
}

void FakeLink::push(int from) {
  FakeEndpoint* const sender = sides_[static_cast<size_t>(from)];
  if (sender == nullptr || !sender->has_output()) return;
  sender->flush();
  if (sender->has_room()) sender->events_.on_room(*sender);
}

void FakeLink::send(int from, Frame frame) {
  const int to = 1 - from;
  std::deque<Frame>& wire = towards_[static_cast<size_t>(to)];
  if (network_ == nullptr) return wire.push_back(std::move(frame));
  wire::FrameHeader header;
  const bool sound = wire::decode(frame.header, &header) == wire::HeaderError::none;
  network_->admit(*this, to, frame);
  wire.push_back(std::move(frame));
  network_->tamper(*this, to, wire);
  if (sound) saw(to, header, FakeMoment::sent);
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
  const FakeEndpoint* receiver = sides_[index];
  if (receiver == nullptr || !receiver->up_) return kNever;
  const bool reset = reset_[static_cast<size_t>(1 - to)];
  if (receiver->receiving_ && !reset) return receiver->arriving_.end_due;
  if (!towards_[index].empty()) return towards_[index].front().header_due;
  return gone_[static_cast<size_t>(1 - to)] ? end_due_[index] : kNever;
}

void FakeLink::deliver_next(int to, Nanoseconds now) {
  FakeEndpoint* const receiver = sides_[static_cast<size_t>(to)];
  std::deque<Frame>& wire = towards_[static_cast<size_t>(to)];
  receiver->now_ = now;
  const bool reset = reset_[static_cast<size_t>(1 - to)];
  if (reset || (!receiver->receiving_ && wire.empty())) {
    return receiver->quiesce(error(Code::peer_lost, "connection %s was closed by the peer",
                                   receiver->describe().c_str()));
  }
  if (!receiver->receiving_) {
    Frame frame = std::move(wire.front());
    wire.pop_front();
    const size_t half = frame.payload.size() / 2;
    receiver->arrive(std::move(frame));
    if (!receiver->up_) return;
    if (half > 0) {
      receiver->land(half);
      return saw(to, receiver->frame_, FakeMoment::half_landed);
    }
  }
  const wire::FrameHeader header = receiver->frame_;
  receiver->land(receiver->arriving_.payload.size());
  receiver->finish_frame();
  saw(to, header, FakeMoment::landed);
}

void FakeLink::deliver_half(int to) {
  FakeEndpoint* const receiver = sides_[static_cast<size_t>(to)];
  std::deque<Frame>& wire = towards_[static_cast<size_t>(to)];
  if (receiver == nullptr || !receiver->up_ || receiver->receiving_ || wire.empty()) return;
  Frame frame = std::move(wire.front());
  wire.pop_front();
  const size_t half = frame.payload.size() / 2;
  receiver->arrive(std::move(frame));
  if (receiver->up_) receiver->land(half);
}

void FakeLink::inject(int to, const wire::FrameHeader& header) {
  Frame frame;
  wire::encode(header, frame.header);
  frame.payload.resize(header.length);
  send(1 - to, std::move(frame));
}

void FakeLink::cut() {
  for (std::deque<Frame>& wire : towards_) wire.clear();
  for (FakeEndpoint* side : sides_) {
    if (side != nullptr) side->quiesce(error(Code::peer_lost, "the test cut %s",
                                             side->describe().c_str()));
  }
}

uint64_t FakeLink::bytes_from(int side) const {
  uint64_t bytes = 0;
  for (const Frame& frame : towards_[static_cast<size_t>(1 - side)]) {
    bytes += wire::kHeaderBytes + frame.payload.size();
  }
  return bytes;
}

// ---------------------------------------------------------------------------------- the connection

// What is under way still arrives, as with a socket that is closed in order.
FakeEndpoint::~FakeEndpoint() {
  link_->sides_[static_cast<size_t>(side_)] = nullptr;
  link_->end(side_, false);
}

bool FakeEndpoint::post(WorkRequest& request) {
  if (!has_room()) return false;
  queue_.push_back(request);
  return true;
}

void FakeEndpoint::acknowledge(uint32_t comm) {
  if (up_ && std::find(ack_comms_.begin(), ack_comms_.end(), comm) == ack_comms_.end()) {
    ack_comms_.push_back(comm);
  }
}

void FakeEndpoint::seal(wire::FrameHeader& header) {
  header.ack = landed_;
  told_ = landed_;
  landed_bytes_ = 0;
}

void FakeEndpoint::post_control(const wire::FrameHeader& header, const std::string& text) {
  if (!up_) return;
  const bool agree = header.type == wire::FrameType::agree;
  const size_t size =
      std::min<size_t>(text.size(), agree ? wire::kAgreeBytesMax : wire::kFailureBytesMax);
  wire::FrameHeader sealed = header;
  sealed.length = static_cast<uint32_t>(size);
  seal(sealed);
  FakeLink::Frame frame;
  wire::encode(sealed, frame.header);
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  frame.payload.assign(bytes, bytes + size);
  control_.push_back(std::move(frame));
}

void FakeEndpoint::flush() {
  if (!up_) return;
  for (const uint32_t comm : ack_comms_) {
    wire::FrameHeader header;
    header.type = wire::FrameType::ack;
    header.comm = comm;
    header.credit = events_.credit_to_tell(*this, comm);
    post_control(header, {});
    ++counters_.acks_sent;
  }
  ack_comms_.clear();
  for (FakeLink::Frame& frame : control_) link_->send(side_, std::move(frame));
  control_.clear();
  while (!queue_.empty() && link_->has_room(side_)) {
    WorkRequest& request = *queue_.pop_front();
    seal(request.header);
    request.header.credit = events_.credit_to_tell(*this, request.header.comm);
    FakeLink::Frame frame;
    wire::encode(request.header, frame.header);
    frame.payload.assign(request.data, request.data + request.header.length);
    counters_.bytes_sent += wire::kHeaderBytes + frame.payload.size();
    ++counters_.frames_sent;
    link_->send(side_, std::move(frame));
    in_flight_.push_back(request);
    ++posted_;
  }
}

void FakeEndpoint::arrive(FakeLink::Frame frame) {
  arriving_ = std::move(frame);
  heard_at_ = now_;
  if (wire::decode(arriving_.header, &frame_) != wire::HeaderError::none) {
    return quiesce(error(Code::internal, "rank %d sent a bad frame", peer));
  }
  handle_ack(frame_);
  if (!up_) return;
  payload_done_ = 0;
  receiving_ = true;
  landing_ = Landing();
  if (frame_.type != wire::FrameType::data) return;
  landing_ = events_.on_frame(*this, frame_);
  if (landing_.refused) quiesce(error(Code::internal, "rank %d broke the protocol", peer));
}

void FakeEndpoint::land(size_t bytes) {
  const size_t take = std::min(bytes, arriving_.payload.size() - payload_done_);
  if (landing_.destination != nullptr && take > 0) {
    std::memcpy(landing_.destination + payload_done_, arriving_.payload.data() + payload_done_,
                take);
  }
  payload_done_ += take;
}

void FakeEndpoint::finish_frame() {
  receiving_ = false;
  const auto text = [&] {
    return std::string(reinterpret_cast<const char*>(arriving_.payload.data()),
                       arriving_.payload.size());
  };
  const Landing landing = std::exchange(landing_, Landing());
  switch (frame_.type) {
    case wire::FrameType::data:
      ++landed_;
      landed_bytes_ += frame_.length;
      ++counters_.frames_received;
      counters_.bytes_received += wire::kHeaderBytes + frame_.length;
      events_.on_landed(*this, frame_, landing);
      break;
    case wire::FrameType::failure:
      events_.on_failure(*this, frame_, text());
      break;
    case wire::FrameType::goodbye:
      goodbye_received_ = true;
      break;
    case wire::FrameType::ack:
      break;
    default:
      events_.on_control(*this, frame_, text());
  }
}

void FakeEndpoint::handle_ack(const wire::FrameHeader& header) {
  const uint32_t newly = header.ack - released_;
  if (newly > posted_ - released_) {
    return quiesce(error(Code::internal, "rank %d acknowledged %u frames, but only %u are out",
                         peer, newly, posted_ - released_));
  }
  const uint32_t late = std::min(newly, ghosts_);
  ghosts_ -= late;
  for (uint32_t i = late; i < newly; ++i) {
    link_->saw(1 - side_, in_flight_.front()->header, FakeMoment::released);
    events_.on_released(*this, *in_flight_.pop_front());
  }
  released_ = header.ack;
  if (header.type == wire::FrameType::data || header.type == wire::FrameType::ack) {
    events_.on_credit(*this, header.comm, header.credit);
  }
}

// A frame leaves as a whole, with a copy of its payload: none is ever half gone.
void FakeEndpoint::disown(const void* owner, WorkQueue& unsent) {
  WorkQueue kept;
  while (!queue_.empty()) {
    WorkRequest* request = queue_.pop_front();
    (request->owner == owner ? unsent : kept).push_back(*request);
  }
  queue_ = kept;
  for (WorkRequest* request = in_flight_.front(); request != nullptr; request = request->next) {
    if (request->owner == owner) request->owner = nullptr, request->data = nullptr;
  }
}

void FakeEndpoint::recall(WorkQueue& unacknowledged) {
  while (!in_flight_.empty()) {
    unacknowledged.push_back(*in_flight_.pop_front());
    ++ghosts_;
  }
  unacknowledged.append(queue_);
}

void FakeEndpoint::quiesce(const Status& why) {
  if (!up_) return;
  up_ = false;
  // Bytes of a connection that was given up do not arrive later, as far as this host can help it.
  link_->end(side_, !goodbye_received_);
  WorkQueue unacknowledged;
  unacknowledged.append(in_flight_);
  unacknowledged.append(queue_);
  control_.clear();
  ack_comms_.clear();
  Status located = why;
  located.with_peer(peer).with_rail(rail);
  events_.on_down(*this, unacknowledged, located, goodbye_received_);
  receiving_ = false;
}

}  // namespace nezha::transport
