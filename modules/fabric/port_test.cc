#include "fabric/port_test.h"

#include <algorithm>

#include "fabric/port_name.h"
#include "wire/little_endian.h"

namespace nezha::transport {

Result<std::unique_ptr<RailTest>> PortTest::open(FabricRail& rail, const Proved& proved) {
  auto port = FabricPort::open(rail, OfiWire::kCompletions);
  if (!port) return port.status();
  std::unique_ptr<PortTest> test(new PortTest(std::move(*port), proved));
  NEZHA_RETURN_IF_ERROR(test->prepare());
  return std::unique_ptr<RailTest>(std::move(test));
}

PortTest::PortTest(std::unique_ptr<FabricPort> port, const Proved& proved)
    : port_(std::move(port)), secret_(proved.secret), hello_(proved.hello),
      acceptor_nonce_(proved.acceptor_nonce), dialer_(proved.dialer) {
  receive_.kind = FabricOperation::Kind::receive;
}

Status PortTest::prepare() {
  return port_->rail().register_local(buffers_.data(), buffers_.size(), &region_);
}

PortTest::~PortTest() {
  if (port_ != nullptr) port_->close();
  FabricRail::forget(region_);
}

std::unique_ptr<FabricPort> PortTest::release_port() {
  FabricRail::forget(region_);
  return std::move(port_);
}

// ---------------------------------------------------------------------------------------- names

wire::Mac PortTest::mac_of(std::string_view purpose, bool with_acceptor) const {
  const std::string& mine = port_->name();
  const std::string_view acceptor = dialer_ ? peer_name_ : mine;
  return mac_of_names({dialer_, secret_, hello_, acceptor_nonce_}, purpose, dialer_ ? mine : peer_name_,
                      with_acceptor ? acceptor : "");
}

void PortTest::begin(Nanoseconds, Bytes& out) {
  if (dialer_) say_name(out);
}

void PortTest::say_name(Bytes& out) {
  const auto bytes = encode(PortName{port_->name(), mac_of("port", !dialer_)});
  out.insert(out.end(), bytes.begin(), bytes.end());
}

size_t PortTest::wanted() const { return peer_name_.empty() ? kPortNameBytes : 0; }

void PortTest::on_bytes(std::span<const std::byte> bytes, Nanoseconds now, Bytes& out) {
  PortName message;
  if (!decode(bytes, &message)) {
    failure_ = "the peer does not say which port its rail has";
    return;
  }
  peer_name_ = message.name;
  if (!same_mac(mac_of("port", dialer_), message.mac)) {
    failure_ = wire::reason_of(wire::Refusal::bad_mac);
    return;
  }
  auto peer = port_->insert(peer_name_);
  if (!peer) {
    failure_ = peer.status().message();
    return;
  }
  peer_ = *peer;
  if (!dialer_) say_name(out);
  set_tokens();
  receive_due_ = true;
  send_due_ = dialer_;
  post(now);
}

void PortTest::set_tokens() {
  const wire::Mac key = mac_of("tokens", true);
  const auto first = wire::load_le<uint64_t>(key.data());
  const auto second = wire::load_le<uint64_t>(key.data() + 8);
  tokens_ = dialer_ ? OfiTokens{first, second} : OfiTokens{second, first};
}

// ------------------------------------------------------------------------------------- messages

bool PortTest::is_polled() const {
  return peer_ != FI_ADDR_UNSPEC && port_ != nullptr && (!over_ || send_due_ || is_sending_);
}

bool PortTest::is_posted(ssize_t answer, bool* due) {
  *due = answer == -FI_EAGAIN;
  if (answer != 0 && !*due) failure_ = port_->rail().library().explain(answer);
  return answer == 0;
}

// The receive first: on some networks what nobody waits for is sent again after a pause.
bool PortTest::post(Nanoseconds now) {
  bool any = false;
  if (receive_due_) {
    any |= is_posted(port_->receive(buffers_.data(), kMessageBytes, region_, receive_), &receive_due_);
  }
  if (!failure_.empty() || !send_due_ || is_sending_) return any;
  std::byte* const message = buffers_.data() + kMessageBytes;
  wire::store_le(message, tokens_.out);
  wire::store_le(message + 8, static_cast<uint64_t>(heard_));
  sent_at_ = now;
  is_sending_ = is_posted(port_->send(peer_, message, kMessageBytes, region_, send_), &send_due_);
  return any || is_sending_;
}

bool PortTest::poll(Nanoseconds now) {
  std::array<FabricPort::Completion, 4> completions;
  const ssize_t count = port_->reap(completions.data(), completions.size());
  for (ssize_t i = 0; i < count; ++i) {
    const FabricPort::Completion& each = completions[static_cast<size_t>(i)];
    if (each.operation == &send_) {
      is_sending_ = false;
      if (each.error != 0) failure_ = port_->rail().library().explain(each.error);
    } else if (each.operation == &receive_) {
      receive_due_ = !over_;
      if (each.error == 0) on_message(each.bytes, now);
    }
  }
  const bool posted = failure_.empty() && post(now);
  return posted || count > 0 || !failure_.empty();
}

// Dialer: the answer to the message before. Acceptor: what is to be answered.
void PortTest::on_message(size_t bytes, Nanoseconds now) {
  const auto number = static_cast<uint64_t>(dialer_ ? heard_ + 1 : heard_);
  if (bytes != kMessageBytes || wire::load_le<uint64_t>(buffers_.data()) != tokens_.in ||
      wire::load_le<uint64_t>(buffers_.data() + 8) != number) {
    return;  // a stranger's
  }
  ++heard_;
  over_ = heard_ == kPings;
  receive_due_ = !over_;
  send_due_ = !dialer_ || !over_;
  if (!dialer_) return;
  const double way_s = static_cast<double>(now - sent_at_) / 2e9;
  latency_s_ = latency_s_ == 0 ? way_s : std::min(latency_s_, way_s);
}

const char* PortTest::late() const {
  return "connected, but messages do not get through on the rail itself in both directions";
}

}  // namespace nezha::transport
