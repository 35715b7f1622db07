#include "transport/shm/shm_test.h"

#include <cstring>

#include "base/log.h"
#include "wire/little_endian.h"

namespace nezha::transport {
namespace {

constexpr uint32_t kOfferMagic = 0x4F535A4E;   // "NZSO"
constexpr uint32_t kAnswerMagic = 0x41535A4E;  // "NZSA"
constexpr size_t kOfferNameAt = 16;
constexpr size_t kOfferMacAt = 32;
constexpr int kStrangersMax = 4096;  // of this user, at the Unix socket

bool says_yes(std::span<const std::byte> bytes) { return bytes[4] == std::byte{1}; }

}  // namespace

ShmTest::ShmTest(const Proved& proved, std::unique_ptr<RailTest> beneath, bool required)
    : beneath_(std::move(beneath)), required_(required), secret_(proved.secret), hello_(proved.hello),
      acceptor_nonce_(proved.acceptor_nonce), dialer_(proved.dialer) {}

wire::Mac ShmTest::mac_of(const char* purpose, const ShmName* name) const {
  std::string text = wire::transcript_of(purpose, hello_, acceptor_nonce_);
  if (name != nullptr) text.append(reinterpret_cast<const char*>(name->data()), name->size());
  return wire::channel_mac_of(secret_, text);
}

// ------------------------------------------------------------------------- the connection's test

void ShmTest::begin(Nanoseconds now, Bytes& out) {
  beneath_->begin(now, out);
  follow_beneath(out);
}

size_t ShmTest::wanted() const {
  if (!beneath_->is_over()) return beneath_->wanted();
  return dialer_ && !offered_ ? kOfferBytes : kAnswerBytes;
}

void ShmTest::on_bytes(std::span<const std::byte> bytes, Nanoseconds now, Bytes& out) {
  if (!beneath_->is_over()) {
    beneath_->on_bytes(bytes, now, out);
    return follow_beneath(out);
  }
  const bool is_offer = bytes.size() == kOfferBytes;
  if (wire::load_le<uint32_t>(bytes.data()) != (is_offer ? kOfferMagic : kAnswerMagic)) {
    failure_ = "the peer says nothing about shared memory";
    return;
  }
  is_offer ? on_offer(bytes, out) : on_answer(bytes, out);
}

void ShmTest::follow_beneath(Bytes& out) {
  failure_ = beneath_->failure();
  latency_s_ = beneath_->latency_s();
  if (beneath_->is_over() && !dialer_) offer(out);
}

const char* ShmTest::late() const {
  return beneath_->is_over() ? "connected, but the peer did not say in time whether it can share memory"
                             : beneath_->late();
}

// --------------------------------------------------------------------------------- the agreement

void ShmTest::offer(Bytes& out) {
  const Status listening = listen();
  std::array<std::byte, kOfferBytes> bytes{};
  wire::store_le(bytes.data(), kOfferMagic);
  bytes[4] = std::byte{listening.is_ok()};
  std::memcpy(&bytes[kOfferNameAt], name_.data(), name_.size());
  const wire::Mac mac = mac_of("shm offer", &name_);
  std::memcpy(&bytes[kOfferMacAt], mac.data(), mac.size());
  out.insert(out.end(), bytes.begin(), bytes.end());
  offered_ = true;
  if (!listening) give_up(listening.message(), Reason::our_own);
}

Status ShmTest::listen() {
  auto name = wire::random_nonce();
  if (!name) return name.status();
  name_ = *name;
  auto listener = listen_on(name_);
  if (!listener) return listener.status();
  listener_ = std::move(*listener);
  return Status::ok();
}

void ShmTest::on_offer(std::span<const std::byte> bytes, Bytes& out) {
  offered_ = true;
  if (!says_yes(bytes)) return give_up("the peer cannot (its log says why)", Reason::the_peers);
  ShmName name;
  std::memcpy(name.data(), &bytes[kOfferNameAt], name.size());
  if (!same_mac(mac_of("shm offer", &name), bytes.subspan(kOfferMacAt))) {
    failure_ = wire::reason_of(wire::Refusal::bad_mac);
    return;
  }
  const Status made = make(name);
  answer(made.is_ok(), out);
  if (!made) give_up(made.message(), Reason::our_own);
}

Status ShmTest::make(const ShmName& name) {
  Descriptor memory;
  auto segment = ShmSegment::create(&memory);
  if (!segment) return segment.status();
  auto socket = connect_to(name);
  if (!socket) {
    return error(socket.status().code(), "%s (is one host_id that of ranks in several network "
                 "namespaces?)", socket.status().message().c_str());
  }
  NEZHA_RETURN_IF_ERROR(pass(*socket, mac_of("shm token", nullptr), memory));
  channel_ = {std::move(*socket), std::move(*segment), true};
  return Status::ok();
}

// An answer tells the acceptor that the memory is under way, and the dialer that it has arrived.
void ShmTest::on_answer(std::span<const std::byte> bytes, Bytes& out) {
  if (!says_yes(bytes)) return give_up("the peer cannot (its log says why)", Reason::the_peers);
  if (dialer_) {
    over_ = true;
    return;
  }
  const Status adopted = adopt();
  answer(adopted.is_ok(), out);
  over_ = adopted.is_ok();
  if (!adopted) give_up(adopted.message(), Reason::our_own);
}

Status ShmTest::adopt() {
  const wire::Mac token = mac_of("shm token", nullptr);
  for (int i = 0; i < kStrangersMax; ++i) {
    Descriptor socket = accept_at(listener_);
    if (!socket) break;
    Descriptor memory;
    wire::Mac shown{};
    if (!receive_memory(socket, shown, &memory) || !same_mac(token, shown)) continue;
    auto segment = ShmSegment::adopt(memory);
    if (!segment) return segment.status();
    channel_ = {std::move(socket), std::move(*segment), false};
    listener_.reset(-1);
    return Status::ok();
  }
  return error(Code::unsupported, "the peer's memory did not arrive on the Unix socket (it must be "
               "of the same user)");
}

void ShmTest::answer(bool can, Bytes& out) const {
  std::array<std::byte, kAnswerBytes> bytes{};
  wire::store_le(bytes.data(), kAnswerMagic);
  bytes[4] = std::byte{can};
  out.insert(out.end(), bytes.begin(), bytes.end());
}

void ShmTest::give_up(const std::string& why, Reason reason) {
  channel_ = {};
  listener_.reset(-1);
  over_ = true;
  if (required_ && dialer_) {
    failure_ = "no shared memory with that rank of this host: " + why +
               "; shm=auto takes loopback instead";
    return;
  }
  if (reason == Reason::the_peers) return;
  log::warn_once("shm", "ranks of this host talk over loopback, as they cannot share memory: " + why);
}

}  // namespace nezha::transport
