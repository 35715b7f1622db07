#include "transport/ofi/ofi_meeting.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/ofi/ofi_wire.h"
#include "wire/little_endian.h"

namespace nezha::transport {
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
    : request_(request), rail_counts_(request.rail_counts()), rails_(std::move(rails)) {}

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
  auto key = wire::random_secret();
  if (!key) return key.status();
  door_key_ = *key;
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
    any |= doors_[rail].post->turn(&arrived, now);
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
  for (auto at = guests_.begin(); at != guests_.end();) {
    const auto guest = at++;
    if (now < guest->deadline) continue;
    leave(*guest);
    guests_.erase(guest);
  }
  while (!spent_.empty() && now >= spent_.front().until) spent_.pop_front();
}

bool OfiMeeting::is_busy() const {
  const auto has_letters = [](const Door& door) { return !door.post->is_idle(); };
  return !dials_.empty() || !guests_.empty() || std::any_of(doors_.begin(), doors_.end(), has_letters);
}

std::vector<int> OfiMeeting::wait_fds() const {
  std::vector<int> all;
  for (const Door& door : doors_) {
    if (door.port->wait_fd() < 0) return {};
    all.push_back(door.port->wait_fd());
  }
  return all;
}

bool OfiMeeting::may_wait() {
  bool all = true;
  for (Door& door : doors_) all &= door.port->may_wait();
  return all;
}

size_t OfiMeeting::entries() const {
  size_t all = guests_.size() + spent_.size();
  for (const Door& door : doors_) all += door.post->addresses();
  return all;
}

Nanoseconds OfiMeeting::next_deadline() const {
  Nanoseconds soonest = kNever;
  for (const Dial& dial : dials_) soonest = std::min(soonest, dial.deadline);
  for (const Guest& guest : guests_) soonest = std::min(soonest, guest.deadline);
  return soonest;
}

void OfiMeeting::at_door(size_t rail, const std::string& bytes, Nanoseconds now) {
  DoorMessage message;
  if (!decode(bytes, &message)) return;
  if (message.word == DoorWord::hello) return greet(rail, message, now);
  if (message.word == DoorWord::proof) return admit(rail, message, now);
  const auto guest = std::find_if(guests_.begin(), guests_.end(), [&](const Guest& each) {
    return each.rail == rail && each.hello.nonce == message.nonce;
  });
  if (guest == guests_.end()) return;
  if (message.word == DoorWord::ping) {
    DoorMessage pong;
    pong.word = DoorWord::pong;
    pong.nonce = message.nonce;
    pong.number = message.number;
    doors_[rail].post->send(guest->to, encode(pong), guest->deadline);
  } else if (message.word == DoorWord::done) {
    seat(*guest, message);
    leave(*guest);
    guests_.erase(guest);
  }
}

bool OfiMeeting::check(size_t rail, const DoorMessage& message, wire::Hello* hello) const {
  if (wire::decode(message.hello, hello) != wire::Refusal::none) return false;
  const wire::Expected expected{request_.job, static_cast<uint32_t>(request_.ranks.size()),
                                static_cast<uint32_t>(request_.rank), rail_counts_,
                                static_cast<uint16_t>(request_.streams_per_rail)};
  if (wire::check_hello(*hello, expected) != wire::Refusal::none || hello->acceptor_rail != rail ||
      hello->nonce != message.nonce) {
    return false;
  }
  const auto& theirs = rank_of(static_cast<int>(hello->dialer_rank)).rails;
  return is_beside(rails_[rail]->info().addr_format, message.name, theirs[hello->dialer_rail].blob);
}

// Who said what in a span of time; nobody else can compute it.
wire::Nonce OfiMeeting::nonce_for(size_t rail, const DoorMessage& message, Nanoseconds now) const {
  std::string text = "door:" + std::to_string(rail) + ":" + std::to_string(now / kNonceTime) + ":";
  text.append(reinterpret_cast<const char*>(message.hello.data()), message.hello.size());
  const wire::Mac mac = wire::channel_mac_of(door_key_, text + message.name);
  wire::Nonce nonce;
  std::memcpy(nonce.data(), mac.data(), nonce.size());
  return nonce;
}

void OfiMeeting::greet(size_t rail, const DoorMessage& message, Nanoseconds now) {
  wire::Hello hello;
  if (!check(rail, message, &hello)) return;
  const wire::Nonce nonce = nonce_for(rail, message, now);
  OfiPost& post = *doors_[rail].post;
  OfiPost::Address* const to = post.enter(message.name);
  if (to == nullptr) return;
  DoorMessage challenge;
  challenge.word = DoorWord::challenge;
  challenge.nonce = message.nonce;
  wire::make_challenge(request_.secret, hello, nonce, challenge.block);
  post.send(to, encode(challenge), now + kGuestTimeout);
  post.leave(to);  // the letter holds it
}

void OfiMeeting::admit(size_t rail, const DoorMessage& message, Nanoseconds now) {
  Guest guest;
  if (!check(rail, message, &guest.hello)) return;
  bool proved = false;
  for (const Nanoseconds said : {now, now - kNonceTime}) {
    if (proved) break;
    guest.nonce = nonce_for(rail, message, said);
    proved = wire::verify_proof(request_.secret, guest.hello, guest.nonce, message.block) ==
             wire::Refusal::none;
  }
  const bool again = std::any_of(spent_.begin(), spent_.end(),
                                 [&](const Spent& each) { return each.nonce == message.nonce; });
  if (!proved || again) return;
  spent_.push_back({message.nonce, now + 2 * kNonceTime});
  guest.rail = rail;
  guest.name = message.name;
  guest.deadline = now + kGuestTimeout;
  welcome(guest);
}

// Without a port, or an address: the dialler's patience ends, and it tries again.
void OfiMeeting::welcome(Guest& guest) {
  auto port = FabricPort::open(*rails_[guest.rail], OfiWire::kCompletions);
  if (!port) return;
  OfiPost& post = *doors_[guest.rail].post;
  guest.port = std::move(*port);
  guest.to = post.enter(guest.name);
  if (guest.to == nullptr) return;
  DoorMessage message;
  message.word = DoorWord::welcome;
  message.nonce = guest.hello.nonce;
  message.name = guest.port->name();
  const wire::Mac mac = wire::channel_mac_of(
      request_.secret, transcript(guest.hello, guest.nonce, guest.name, message.name, "welcome"));
  std::memcpy(message.block.data(), mac.data(), mac.size());
  post.send(guest.to, encode(message), guest.deadline);
  guests_.push_back(std::move(guest));
}

void OfiMeeting::leave(Guest& guest) { doors_[guest.rail].post->leave(guest.to); }

void OfiMeeting::seat(Guest& guest, const DoorMessage& message) {
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

void OfiMeeting::dial(const Path& path, uint32_t epoch, Nanoseconds now, Nanoseconds patience,
                      bool probe) {
  Dial& dial = dials_.emplace_back();
  dial.path = path;
  dial.epoch = epoch;
  dial.probe = probe;
  dial.deadline = now + patience;
  if (const std::string why = start(dial, now); !why.empty()) {
    refuse(dial, DialOutcome::unanswered, why);
    if (dial.port != nullptr) dial.port->close();
    dials_.pop_back();
  }
}

// Why not; empty when it is on its way.
std::string OfiMeeting::start(Dial& dial, Nanoseconds now) {
  FabricRail& rail = *rails_[static_cast<size_t>(dial.path.rail)];
  const RailAddress& theirs =
      rank_of(dial.path.peer).rails[static_cast<size_t>(dial.path.peer_rail)];
  auto port = FabricPort::open(rail, OfiWire::kCompletions);
  if (!port) return port.status().message();
  dial.port = std::move(*port);
  auto post = OfiPost::open(*dial.port, 0);
  if (!post) return post.status().message();
  dial.post = std::move(*post);
  dial.door = dial.post->enter(theirs.blob);
  if (dial.door == nullptr) return "rail " + rail.name() + " does not take the address of its door";
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
  wire::encode(dial.hello, dial.hello_bytes);
  send(dial, DoorWord::hello, {}, 0, now);
  return "";
}

void OfiMeeting::send(Dial& dial, DoorWord word, const std::array<std::byte, 64>& block,
                      uint64_t number, Nanoseconds now) {
  DoorMessage message;
  message.word = word;
  message.nonce = dial.hello.nonce;
  message.block = block;
  message.number = number;
  if (word == DoorWord::hello || word == DoorWord::proof) {
    message.hello = dial.hello_bytes;
    message.name = dial.port->name();
  }
  dial.sent_at = now;
  dial.post->send(dial.door, encode(message), dial.deadline);
}

void OfiMeeting::refuse(Dial& dial, DialOutcome outcome, std::string reason) {
  refused.push_back({dial.path, dial.probe, outcome, false, std::move(reason)});
}

bool OfiMeeting::advance(Dial& dial, Nanoseconds now) {
  std::vector<std::string> arrived;
  dial.post->turn(&arrived, now);
  if (const int failure = dial.post->send_error(); failure != 0) {
    refuse(dial, failure == ECONNREFUSED ? DialOutcome::refused : DialOutcome::unanswered,
           rails_[static_cast<size_t>(dial.path.rail)]->library().explain(failure));
    return false;
  }
  for (const std::string& bytes : arrived) {
    DoorMessage message;
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
  if (dial.awaited == DoorWord::done && dial.post->is_idle()) {
    finish(dial);
    return false;
  }
  if (now < dial.deadline) return true;
  refuse(dial, dial.awaited == DoorWord::challenge ? DialOutcome::unanswered : DialOutcome::failed,
         dial.awaited == DoorWord::challenge ? "no answer" : "the answer was not finished in time");
  return false;
}

// What to do next; why not.
std::string OfiMeeting::answer(Dial& dial, const DoorMessage& message, Nanoseconds now) {
  std::array<std::byte, 64> block{};
  if (message.word == DoorWord::challenge) {
    const wire::Refusal refusal = wire::verify_challenge(request_.secret, dial.hello, message.block,
                                                         &dial.acceptor_nonce);
    if (refusal != wire::Refusal::none) return std::string(wire::reason_of(refusal));
    wire::make_proof(request_.secret, dial.hello, dial.acceptor_nonce, block);
    dial.awaited = DoorWord::welcome;
    if (const Status armed = dial.post->arm(); !armed) return armed.message();
    send(dial, DoorWord::proof, block, 0, now);
    return "";
  }
  if (message.word == DoorWord::welcome) {
    const wire::Mac expected = wire::channel_mac_of(
        request_.secret,
        transcript(dial.hello, dial.acceptor_nonce, dial.port->name(), message.name, "welcome"));
    wire::Mac said;
    std::memcpy(said.data(), message.block.data(), said.size());
    if (!same_mac(expected, said)) return std::string(wire::reason_of(wire::Refusal::bad_mac));
    dial.peer_name = message.name;
    dial.awaited = DoorWord::pong;
  } else {
    dial.best = std::min(dial.best, now - dial.sent_at);
    ++dial.pings;
  }
  if (dial.pings < kPings) {
    if (const Status armed = dial.post->arm(); !armed) return armed.message();
    send(dial, DoorWord::ping, block, static_cast<uint64_t>(dial.pings), now);
    return "";
  }
  // Nothing is armed any more: what comes next belongs to the connection.
  dial.awaited = DoorWord::done;
  send(dial, DoorWord::done, block, static_cast<uint64_t>(dial.best / 2), now);
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
