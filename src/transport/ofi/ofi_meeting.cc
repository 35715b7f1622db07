#include "transport/ofi/ofi_meeting.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/ofi/ofi_endpoint.h"
#include "wire/little_endian.h"

namespace nezha::transport {
namespace {

constexpr uint32_t kMeetingMagic = 0x4A5A4E7F;  // 0x7F 'N' 'Z' 'J'
constexpr size_t kFixedBytes = 4 + 4 + wire::kNonceBytes + 64 + 8;
constexpr size_t kNameMax = 512;

}  // namespace

// ------------------------------------------------------------------------------------ messages

std::string OfiMeeting::encode(const Message& message) {
  std::string bytes(kFixedBytes, '\0');
  auto* at = reinterpret_cast<std::byte*>(bytes.data());
  wire::store_le(at, kMeetingMagic);
  wire::store_le(at + 4, static_cast<uint32_t>(message.word));
  std::memcpy(at + 8, message.nonce.data(), message.nonce.size());
  std::memcpy(at + 24, message.block.data(), message.block.size());
  wire::store_le(at + 88, message.number);
  return bytes + message.name;
}

bool OfiMeeting::decode(const std::string& bytes, Message* message) {
  if (bytes.size() < kFixedBytes || bytes.size() > kFixedBytes + kNameMax) return false;
  const auto* at = reinterpret_cast<const std::byte*>(bytes.data());
  const auto word = wire::load_le<uint32_t>(at + 4);
  if (wire::load_le<uint32_t>(at) != kMeetingMagic || word < static_cast<uint32_t>(Word::hello) ||
      word > static_cast<uint32_t>(Word::done)) {
    return false;
  }
  message->word = static_cast<Word>(word);
  std::memcpy(message->nonce.data(), at + 8, message->nonce.size());
  std::memcpy(message->block.data(), at + 24, message->block.size());
  message->number = wire::load_le<uint64_t>(at + 88);
  message->name = bytes.substr(kFixedBytes);
  return true;
}

std::string OfiMeeting::transcript(const wire::Hello& hello, const wire::Nonce& acceptor_nonce,
                                   const std::string& dialler_name,
                                   const std::string& acceptor_name, const char* purpose) const {
  std::array<std::byte, wire::kHelloBytes> bytes;
  wire::encode(hello, bytes);
  std::string text(purpose);
  text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  text.append(reinterpret_cast<const char*>(acceptor_nonce.data()), acceptor_nonce.size());
  for (const std::string* name : {&dialler_name, &acceptor_name}) {
    text += std::to_string(name->size()) + ":" + *name;
  }
  return text;
}

void OfiMeeting::set_tokens(OfiJoined& made, const std::string& keyed) const {
  const wire::Mac key = wire::channel_mac_of(request_.secret, keyed);
  const auto first = wire::load_le<uint64_t>(key.data());
  const auto second = wire::load_le<uint64_t>(key.data() + 8);
  made.token_out = made.dialled ? first : second;
  made.token_in = made.dialled ? second : first;
}

// --------------------------------------------------------------------------------------- doors

OfiMeeting::OfiMeeting(const MeshRequest& request, std::vector<FabricRail*> rails)
    : request_(request), rails_(std::move(rails)) {}

OfiMeeting::~OfiMeeting() {
  // Ports first: they use the buffers.
  for (Door& door : doors_) door.port->close();
  for (Dial& dial : dials_) {
    if (dial.port != nullptr) dial.port->close();
  }
}

Result<std::unique_ptr<FabricPort>> OfiMeeting::open_door(FabricRail& rail) {
  return FabricPort::open(rail, 2 * kDoorReceives);
}

Status OfiMeeting::take_doors(std::vector<std::unique_ptr<FabricPort>> doors) {
  for (auto& port : doors) {
    Door& door = doors_.emplace_back();
    door.port = std::move(port);
    auto post = OfiPost::open(*door.port, kDoorReceives);
    if (!post) return post.status();
    door.post = std::move(*post);
  }
  return Status::ok();
}

bool OfiMeeting::turn(Nanoseconds now) {
  bool any = false;
  for (size_t rail = 0; rail < doors_.size(); ++rail) {
    std::vector<std::string> arrived;
    any |= doors_[rail].post->turn(&arrived);
    for (const std::string& bytes : arrived) at_door(rail, bytes, now);
  }
  for (auto at = dials_.begin(); at != dials_.end();) {
    const auto here = at++;
    if (advance(*here, now)) continue;
    any = true;
    if (here->port != nullptr) here->port->close();
    dials_.erase(here);
  }
  drop_expired(now);
  return any;
}

void OfiMeeting::drop_expired(Nanoseconds now) {
  std::erase_if(guests_, [&](const Guest& guest) { return now >= guest.deadline; });
}

Nanoseconds OfiMeeting::next_deadline() const {
  Nanoseconds soonest = kNever;
  for (const Dial& dial : dials_) soonest = std::min(soonest, dial.deadline);
  for (const Guest& guest : guests_) soonest = std::min(soonest, guest.deadline);
  return soonest;
}

void OfiMeeting::at_door(size_t rail, const std::string& bytes, Nanoseconds now) {
  Message message;
  if (!decode(bytes, &message)) return;
  if (message.word == Word::hello) return greet(rail, message, now);
  const auto guest = std::find_if(guests_.begin(), guests_.end(), [&](const Guest& each) {
    return each.rail == rail && each.hello.nonce == message.nonce;
  });
  if (guest == guests_.end()) return;
  if (message.word == Word::proof && !guest->member) {
    admit(*guest, message);
    if (!guest->member) guests_.erase(guest);
  } else if (message.word == Word::ping && guest->member) {
    Message pong;
    pong.word = Word::pong;
    pong.nonce = message.nonce;
    pong.number = message.number;
    doors_[rail].post->send(guest->to, encode(pong));
  } else if (message.word == Word::done && guest->member) {
    seat(*guest, message);
    guests_.erase(guest);
  }
}

void OfiMeeting::greet(size_t rail, const Message& message, Nanoseconds now) {
  Guest guest;
  if (wire::decode(std::span<const std::byte, wire::kHelloBytes>(message.block), &guest.hello) !=
      wire::Refusal::none) {
    return;
  }
  const wire::Expected expected{request_.job, static_cast<uint32_t>(request_.ranks.size()),
                                static_cast<uint32_t>(request_.rank),
                                static_cast<uint16_t>(rails_.size())};
  if (wire::check_hello(guest.hello, expected) != wire::Refusal::none ||
      guest.hello.acceptor_rail != rail || guest.hello.nonce != message.nonce ||
      guest.hello.lane >= request_.streams_per_rail ||
      guest.hello.dialer_rail >= rank_of(static_cast<int>(guest.hello.dialer_rank)).rails.size()) {
    return;
  }
  auto nonce = wire::random_nonce();
  auto to = doors_[rail].port->insert(message.name);
  if (!nonce || !to) return;
  guest.rail = rail;
  guest.name = message.name;
  guest.nonce = *nonce;
  guest.to = *to;
  guest.deadline = now + kGuestTimeout;
  Message challenge;
  challenge.word = Word::challenge;
  challenge.nonce = message.nonce;
  wire::make_challenge(request_.secret, guest.hello, guest.nonce, challenge.block);
  doors_[rail].post->send(guest.to, encode(challenge));
  const auto is_stranger = [](const Guest& each) { return !each.member; };
  if (static_cast<size_t>(std::count_if(guests_.begin(), guests_.end(), is_stranger)) >= kStrangersMax) {
    guests_.erase(std::find_if(guests_.begin(), guests_.end(), is_stranger));
  }
  guests_.push_back(std::move(guest));
}

void OfiMeeting::admit(Guest& guest, const Message& message) {
  if (wire::verify_proof(request_.secret, guest.hello, guest.nonce, message.block) !=
      wire::Refusal::none) {
    return;
  }
  auto port = FabricPort::open(*rails_[guest.rail], OfiEndpoint::kCompletions);
  if (!port) return;  // the dialler's patience ends, and it tries again
  guest.port = std::move(*port);
  guest.member = true;
  Message welcome;
  welcome.word = Word::welcome;
  welcome.nonce = message.nonce;
  welcome.name = guest.port->name();
  const wire::Mac mac = wire::channel_mac_of(
      request_.secret, transcript(guest.hello, guest.nonce, guest.name, welcome.name, "welcome"));
  std::memcpy(welcome.block.data(), mac.data(), mac.size());
  doors_[guest.rail].post->send(guest.to, encode(welcome));
}

void OfiMeeting::seat(Guest& guest, const Message& message) {
  auto to = guest.port->insert(guest.name);
  if (!to) return;
  OfiJoined made;
  made.path = {static_cast<int>(guest.hello.dialer_rank), static_cast<int>(guest.rail),
               guest.hello.dialer_rail, guest.hello.lane};
  made.epoch = guest.hello.epoch;
  made.to = *to;
  made.latency_s = static_cast<double>(std::min<uint64_t>(message.number, kSecond)) / 1e9;
  set_tokens(made, transcript(guest.hello, guest.nonce, guest.name, guest.port->name(), "tokens"));
  made.port = std::move(guest.port);
  joined.push_back(std::move(made));
}

// ------------------------------------------------------------------------------------- dialling

void OfiMeeting::dial(const Path& path, uint32_t epoch, Nanoseconds deadline, bool probe) {
  Dial& dial = dials_.emplace_back();
  dial.path = path;
  dial.epoch = epoch;
  dial.probe = probe;
  dial.deadline = deadline;
  if (const std::string why = start(dial); !why.empty()) {
    refuse(dial, DialOutcome::unanswered, why);
    if (dial.port != nullptr) dial.port->close();
    dials_.pop_back();
  }
}

// Why not; empty when it is on its way.
std::string OfiMeeting::start(Dial& dial) {
  FabricRail& rail = *rails_[static_cast<size_t>(dial.path.rail)];
  const RailAddress& theirs =
      rank_of(dial.path.peer).rails[static_cast<size_t>(dial.path.peer_rail)];
  auto port = FabricPort::open(rail, OfiEndpoint::kCompletions);
  if (!port) return port.status().message();
  dial.port = std::move(*port);
  auto post = OfiPost::open(*dial.port, 0);
  if (!post) return post.status().message();
  dial.post = std::move(*post);
  auto door = dial.port->insert(theirs.door);
  if (!door) return door.status().message();
  dial.door = *door;
  auto nonce = wire::random_nonce();
  if (!nonce) return nonce.status().message();
  dial.hello.job = request_.job;
  dial.hello.world_size = static_cast<uint32_t>(request_.ranks.size());
  dial.hello.dialer_rank = static_cast<uint32_t>(request_.rank);
  dial.hello.acceptor_rank = static_cast<uint32_t>(dial.path.peer);
  dial.hello.dialer_rail = static_cast<uint16_t>(dial.path.rail);
  dial.hello.acceptor_rail = static_cast<uint16_t>(dial.path.peer_rail);
  dial.hello.lane = static_cast<uint16_t>(dial.path.lane);
  dial.hello.epoch = dial.epoch;
  dial.hello.nonce = *nonce;
  if (const Status armed = dial.post->arm(); !armed) return armed.message();
  std::array<std::byte, 64> block;
  wire::encode(dial.hello, block);
  send(dial, Word::hello, block, 0, 0);
  return "";
}

void OfiMeeting::send(Dial& dial, Word word, const std::array<std::byte, 64>& block,
                      uint64_t number, Nanoseconds now) {
  Message message;
  message.word = word;
  message.nonce = dial.hello.nonce;
  message.block = block;
  message.number = number;
  if (word == Word::hello) message.name = dial.port->name();
  dial.sent_at = now;
  dial.post->send(dial.door, encode(message));
}

void OfiMeeting::refuse(Dial& dial, DialOutcome outcome, std::string reason) {
  refused.push_back({dial.path, dial.probe, outcome, false, std::move(reason)});
}

bool OfiMeeting::advance(Dial& dial, Nanoseconds now) {
  std::vector<std::string> arrived;
  dial.post->turn(&arrived);
  if (const int failure = dial.post->send_error(); failure != 0) {
    refuse(dial, failure == ECONNREFUSED ? DialOutcome::refused : DialOutcome::unanswered,
           rails_[static_cast<size_t>(dial.path.rail)]->library().explain(failure));
    return false;
  }
  for (const std::string& bytes : arrived) {
    Message message;
    std::string why;
    const bool ours = decode(bytes, &message) && message.nonce == dial.hello.nonce;
    if (ours && message.word == dial.awaited) {
      if (dial.probe) {
        refused.push_back({dial.path, true, DialOutcome::failed, true, ""});
        return false;
      }
      why = answer(dial, message, now);
    } else if (const Status armed = dial.post->arm(); !armed) {
      why = armed.message();
    }
    if (!why.empty()) {
      refuse(dial, DialOutcome::failed, why);
      return false;
    }
  }
  if (dial.awaited == Word::done && dial.post->is_idle()) {
    finish(dial);
    return false;
  }
  if (now < dial.deadline) return true;
  refuse(dial, dial.awaited == Word::challenge ? DialOutcome::unanswered : DialOutcome::failed,
         dial.awaited == Word::challenge ? "no answer" : "the answer was not finished in time");
  return false;
}

// What to do next; why not.
std::string OfiMeeting::answer(Dial& dial, const Message& message, Nanoseconds now) {
  std::array<std::byte, 64> block{};
  if (message.word == Word::challenge) {
    const wire::Refusal refusal = wire::verify_challenge(request_.secret, dial.hello, message.block,
                                                         &dial.acceptor_nonce);
    if (refusal != wire::Refusal::none) return std::string(wire::reason_of(refusal));
    wire::make_proof(request_.secret, dial.hello, dial.acceptor_nonce, block);
    dial.awaited = Word::welcome;
    if (const Status armed = dial.post->arm(); !armed) return armed.message();
    send(dial, Word::proof, block, 0, now);
    return "";
  }
  if (message.word == Word::welcome) {
    const wire::Mac expected = wire::channel_mac_of(
        request_.secret,
        transcript(dial.hello, dial.acceptor_nonce, dial.port->name(), message.name, "welcome"));
    wire::Mac said;
    std::memcpy(said.data(), message.block.data(), said.size());
    if (!wire::equal(said, expected)) return std::string(wire::reason_of(wire::Refusal::bad_mac));
    dial.peer_name = message.name;
    dial.awaited = Word::pong;
  } else {
    dial.best = std::min(dial.best, now - dial.sent_at);
    ++dial.pings;
  }
  if (dial.pings < kPings) {
    if (const Status armed = dial.post->arm(); !armed) return armed.message();
    send(dial, Word::ping, block, static_cast<uint64_t>(dial.pings), now);
    return "";
  }
  // Nothing is armed any more: what comes next belongs to the endpoint.
  dial.awaited = Word::done;
  send(dial, Word::done, block, static_cast<uint64_t>(dial.best / 2), now);
  return "";
}

void OfiMeeting::finish(Dial& dial) {
  auto to = dial.port->insert(dial.peer_name);
  if (!to) return refuse(dial, DialOutcome::failed, to.status().message());
  OfiJoined made;
  made.path = dial.path;
  made.epoch = dial.epoch;
  made.dialled = true;
  made.to = *to;
  made.latency_s = static_cast<double>(dial.best) / 2e9;
  set_tokens(made, transcript(dial.hello, dial.acceptor_nonce, dial.port->name(), dial.peer_name,
                              "tokens"));
  made.port = std::move(dial.port);
  joined.push_back(std::move(made));
}

}  // namespace nezha::transport
