#include "transport/connection.h"

#include <algorithm>
#include <utility>

#include "wire/crc32c.h"
#include "wire/little_endian.h"

namespace nezha::transport {

Connection::Connection(ConnectionEvents& events, std::unique_ptr<Wire> wire,
                       const ConnectionOptions& options)
    : events_(events), wire_(std::move(wire)), options_(options) {
  ack_comms_.reserve(1);
}

ConnectionCounters Connection::counters() const {
  ConnectionCounters counters = counters_;
  counters.bytes_sent -= wire_->held_bytes();
  if (wire_->is_shared_memory()) {
    counters.shm_bytes_sent = counters.bytes_sent;
    counters.shm_bytes_received = counters.bytes_received;
  }
  counters.send_calls = wire_->send_calls();
  counters.receive_calls = wire_->receive_calls();
  return counters;
}

// ---------------------------------------------------------------------------------------- sending

bool Connection::post(WorkRequest& request) {
  if (!has_room()) return false;
  request.has_trailer = false;
  queue_.push_back(request);
  return true;
}

void Connection::acknowledge(uint64_t comm) {
  if (up_ && std::find(ack_comms_.begin(), ack_comms_.end(), comm) == ack_comms_.end()) {
    ack_comms_.push_back(comm);
    events_.on_output(*this);
  }
}

// Needs no memory: queues one acknowledgement, for communicator 0, if none is queued.
void Connection::acknowledge_any() {
  if (ack_comms_.empty()) acknowledge(0);
}

void Connection::post_control(const wire::FrameHeader& header, const std::string& text) {
  if (!up_) return;
  const bool agree = header.type == wire::FrameType::agree;
  ControlFrame& control = control_.emplace_back();
  control.text = text.substr(0, agree ? wire::kAgreeBytesMax : wire::kFailureBytesMax);
  control.request.header = header;
  control.request.header.length = static_cast<uint32_t>(control.text.size());
  events_.on_output(*this);
}

bool Connection::has_output() const {
  return up_ && (!stopped_.is_ok() || !queue_.empty() || !control_.empty() || !ack_comms_.empty() ||
                 wire_->has_output());
}

void Connection::flush() {
  if (!up_) return;
  if (!stopped_.is_ok()) return quiesce(stopped_);
  while (true) {
    Frames frames;
    const size_t count = gather(frames);
    if (count == 0 && !wire_->has_output()) return;
    const size_t taken = wire_->send({frames.data(), count});
    if (!up_) return;
    count_sent(frames, taken);
    if (taken < count) {
      limit_control();
      return;
    }
    if (count < frames.size()) return;
  }
}

// Control frames go first. Acknowledgements are cumulative: none is made while other control frames
// wait to leave.
size_t Connection::gather(Frames& frames) {
  if (control_.empty()) queue_acks();
  size_t count = 0;
  for (size_t next = control_next_; next < control_.size() && count < frames.size(); ++next) {
    ControlFrame& control = control_[next];
    control.request.data = reinterpret_cast<const std::byte*>(control.text.data());
    frames[count++] = &control.request;
  }
  for (WorkRequest* next = queue_.front(); next != nullptr && count < frames.size(); next = next->next) {
    frames[count++] = next;
  }
  for (size_t i = 0; i < count; ++i) seal(*frames[i]);
  return count;
}

void Connection::queue_acks() {
  for (const uint64_t comm : ack_comms_) {
    wire::FrameHeader header;
    header.type = wire::FrameType::ack;
    header.comm = comm;
    post_control(header, {});
    ++counters_.acks_sent;
  }
  ack_comms_.clear();
}

// Fills in acknowledgement and credit as late as possible, when the frame is given to the wire.
void Connection::seal(WorkRequest& request) {
  wire::FrameHeader& header = request.header;
  header.ack = landed_;
  if (header.type == wire::FrameType::data || header.type == wire::FrameType::ack) {
    header.credit = events_.credit_to_tell(*this, header.comm);
  }
  wire::encode(header, request.header_bytes);
  if (request.has_trailer || trailer_of(header.length) == 0) return;
  // The checksum is made once for each posting: the bytes do not change until they are released.
  const uint32_t crc = wire::crc32c({request.data, header.length});
  wire::store_le(request.trailer_bytes.data(), crc);
  request.has_trailer = true;
}

void Connection::count_sent(const Frames& frames, size_t taken) {
  if (taken == 0) return;
  told_ = landed_;
  landed_bytes_ = 0;
  for (size_t i = 0; i < taken; ++i) {
    counters_.bytes_sent += frame_bytes(*frames[i]);
    if (control_next_ < control_.size()) {
      ++control_next_;
      continue;
    }
    in_flight_.push_back(*queue_.pop_front());
    ++begun_;
    ++counters_.frames_sent;
  }
  if (control_next_ < control_.size()) return;
  control_.clear();
  control_next_ = 0;
}

// A peer that makes this rank answer and does not read must not make the queue grow without bound.
void Connection::limit_control() {
  control_.erase(control_.begin(), control_.begin() + static_cast<std::ptrdiff_t>(control_next_));
  control_next_ = 0;
  if (control_.size() <= options_.control_frames_max) return;
  quiesce(error(Code::peer_lost, "rank %d does not read from %s: %zu control frames wait to be sent",
                peer, describe().c_str(), control_.size()));
}

void Connection::on_ready() {
  flush();
  if (has_room()) events_.on_room(*this);
}

// -------------------------------------------------------------------------------------- releasing

void Connection::handle_ack(const wire::FrameHeader& header) {
  const uint32_t newly = header.ack - acknowledged_;
  if (newly > begun_ - acknowledged_) {
    return quiesce(error(Code::internal, "rank %d acknowledged %u frames on %s, but only %u were sent",
                         peer, newly, describe().c_str(), begun_ - acknowledged_));
  }
  acknowledged_ = header.ack;
  release_acknowledged();
  if (is_usable() && (header.type == wire::FrameType::data || header.type == wire::FrameType::ack)) {
    events_.on_credit(*this, header.comm, header.credit);
  }
}

void Connection::release_acknowledged() {
  while (is_usable() && released_ != acknowledged_) {
    const Wire::Use use = wire_->use_of(released_);
    if (use == Wire::Use::ending) return;
    if (use == Wire::Use::needed) return break_protocol("acknowledged a payload that was not sent");
    ++released_;
    if (recalled_ > 0) {
      --recalled_;
    } else {
      events_.on_released(*this, *in_flight_.pop_front());
    }
  }
}

void Connection::disown(const WorkOwner& owner, WorkQueue& unsent) {
  WorkQueue kept;
  while (!queue_.empty()) {
    WorkRequest* request = queue_.pop_front();
    if (request->owner == &owner) {
      // The last attempt to send the request may have filled in a credit, which now has to leave in
      // another way.
      acknowledge_any();
      unsent.push_back(*request);
    } else {
      kept.push_back(*request);
    }
  }
  queue_ = kept;
  uint32_t number = first_unacknowledged();
  for (WorkRequest* request = in_flight_.front(); request != nullptr; request = request->next) {
    if (request->owner == &owner) {
      request->owner = nullptr, request->data = nullptr;
      stop_if_failed(wire_->detach(number));
    }
    ++number;
  }
}

void Connection::recall(WorkQueue& unacknowledged) {
  uint32_t number = first_unacknowledged();
  while (!in_flight_.empty()) {
    stop_if_failed(wire_->detach(number++));
    unacknowledged.push_back(*in_flight_.pop_front());
    ++recalled_;
  }
  if (!queue_.empty()) acknowledge_any();
  unacknowledged.append(queue_);
}

// ----------------------------------------------------------------------------------------- ending

void Connection::break_protocol(const char* what) {
  quiesce(error(Code::internal, "rank %d broke the protocol on %s: it %s", peer, describe().c_str(),
                what));
}

void Connection::quiesce(const Status& why) {
  if (!up_) return;
  up_ = false;
  wire_->close(goodbye_received_);
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
