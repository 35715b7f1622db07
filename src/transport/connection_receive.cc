// Connection: frames that arrive.
#include "transport/connection.h"
#include "wire/crc32c.h"
#include "wire/little_endian.h"

namespace nezha::transport {

Arrival* Connection::on_header(const std::byte* bytes) {
  wire::FrameHeader header;
  const wire::HeaderError refusal =
      wire::decode(wire::ConstHeaderBytes(bytes, wire::kHeaderBytes), &header);
  if (refusal != wire::HeaderError::none) {
    quiesce(error(Code::internal, "rank %d sent a bad frame on %s: %s", peer, describe().c_str(),
                  std::string(wire::name_of(refusal)).c_str()));
    return nullptr;
  }
  counters_.bytes_received += wire::kHeaderBytes;
  handle_ack(header);
  if (!is_usable()) return nullptr;
  return header.type == wire::FrameType::data ? place(header) : expect_control(header);
}

Arrival* Connection::place(const wire::FrameHeader& header) {
  if (incoming_count_ == Wire::kIncomingMax) {
    break_protocol("sent more frames than were allowed");
    return nullptr;
  }
  const Landing landing = events_.on_frame(*this, header);
  if (landing.refused) {
    quiesce(error(Code::internal, "rank %d broke the protocol on %s: op %llu, chunk %u, stage %u", peer,
                  describe().c_str(), static_cast<unsigned long long>(header.op_seq), header.chunk,
                  header.stage));
  }
  if (!up_) return nullptr;
  Incoming& arrival = incoming(incoming_count_);
  arrival.number = landed_ + incoming_count_++;
  arrival.is_data = true;
  arrival.destination = landing.destination;
  arrival.length = header.length;
  arrival.trailer_length = trailer_of(header.length);
  arrival.header = header;
  arrival.landing = landing;
  arrival.complete = false;
  return is_usable() ? &arrival : nullptr;
}

Arrival* Connection::expect_control(const wire::FrameHeader& header) {
  control_text_.resize(header.length);
  control_in_.destination = reinterpret_cast<std::byte*>(control_text_.data());
  control_in_.length = header.length;
  control_in_.trailer_length = trailer_of(header.length);
  control_in_.header = header;
  return &control_in_;
}

bool Connection::on_arrived(Arrival& arrival) {
  auto& arrived = static_cast<Incoming&>(arrival);
  counters_.bytes_received += arrived.length;
  if (!is_intact(arrived)) return false;
  if (!arrived.is_data) {
    on_control_arrived();
    return is_usable();
  }
  arrived.complete = true;
  deliver();
  return is_usable();
}

// A payload without a destination was dropped: nobody uses it, and it is not checked.
bool Connection::is_intact(const Incoming& arrived) {
  if (arrived.trailer_length == 0 || arrived.destination == nullptr) return true;
  const uint32_t crc = wire::crc32c({arrived.destination, arrived.length});
  if (wire::load_le<uint32_t>(arrived.trailer.data()) == crc) return true;
  quiesce(error(Code::internal, "payload checksum: %u bytes from rank %d (op %llu, chunk %u) were "
                "changed in transit on %s; check that network's cables, devices and offloads",
                arrived.length, peer, static_cast<unsigned long long>(arrived.header.op_seq),
                arrived.header.chunk, describe().c_str()));
  return false;
}

void Connection::deliver() {
  while (is_usable() && incoming_count_ > 0 && incoming(0).complete) {
    const wire::FrameHeader header = incoming(0).header;
    const Landing landing = incoming(0).landing;
    incoming_first_ = (incoming_first_ + 1) % Wire::kIncomingMax;
    --incoming_count_;
    ++landed_;
    landed_bytes_ += header.length;
    ++counters_.frames_received;
    events_.on_landed(*this, header, landing);
  }
}

void Connection::on_control_arrived() {
  const wire::FrameHeader& header = control_in_.header;
  switch (header.type) {
    case wire::FrameType::failure:
      return events_.on_failure(*this, header, control_text_);
    case wire::FrameType::goodbye:
      goodbye_received_ = true;
      return;
    case wire::FrameType::ack:
      return;
    default:
      events_.on_control(*this, header, control_text_);
  }
}

void Connection::abandon_landing(int index) {
  Incoming& arrival = incoming(static_cast<uint32_t>(index));
  arrival.landing.owner = nullptr;
  arrival.landing.early = nullptr;
  if (!arrival.complete && arrival.destination != nullptr) stop_if_failed(wire_->abandon(arrival));
  arrival.landing.destination = arrival.destination = nullptr;
}

}  // namespace nezha::transport
