#include "planted/store_trust.h"

#include <functional>
#include <random>
#include <thread>

#include "context/bootstrap.h"
#include "context/records.h"
#include "rendezvous/socket.h"
#include "rendezvous/tcp_protocol.h"
#include "rendezvous/tcp_server.h"
#include "support/forwarding_store.h"
#include "wire/key_file.h"

namespace nezha::simulation {
namespace {

constexpr Nanoseconds kPatience = 60 * kSecond;

using context::Bootstrap;
using rendezvous::Store;
using Change = std::function<void(const std::string& key, WipedText& value)>;

// A store whose reader is told something else than what is in it.
class Tampered final : public testing::ForwardingStore {
 public:
  Tampered(std::unique_ptr<Store> store, Change change)
      : ForwardingStore(std::move(store)), change_(std::move(change)) {}
  Result<WipedText> get(std::string_view key, Nanoseconds deadline) override {
    auto value = ForwardingStore::get(key, deadline);
    if (value && change_) change_(std::string(key), *value);
    return value;
  }

 private:
  const Change change_;
};

// Two ranks that meet in one store, of which the second is told what `change` makes of it.
class Rendezvous {
 public:
  Rendezvous(uint64_t seed, Nanoseconds patience, Change change)
      : address_("hash://trust-" + std::to_string(seed)), deadline_(system_clock().now() + patience) {
    std::thread other([&] { sessions_[1] = meet(1, std::move(change)); });
    sessions_[0] = meet(0, nullptr);
    other.join();
  }
  bool met(int rank) const { return sessions_[rank].is_ok(); }
  bool have_one_secret() const { return sessions_[0].value().secret == sessions_[1].value().secret; }
  bool has_welcome() const { return keep_->get("welcome", 0).is_ok(); }

 private:
  Result<context::Session> meet(int rank, Change change) const {
    Tampered store(std::move(*rendezvous::open_store(address_, {})), std::move(change));
    const Config config;
    context::BootstrapRequest request;
    request.rank = rank;
    request.world_size = 2;
    request.deadline = deadline_;
    return Bootstrap(store, config, request).meet();
  }

  const std::string address_;
  const Nanoseconds deadline_;
  const std::unique_ptr<Store> keep_ = std::move(*rendezvous::open_store(address_, {}));
  Result<context::Session> sessions_[2] = {Status(Code::internal, ""), Status(Code::internal, "")};
};

// What is said of `rank` in the welcome is said of another rail.
Change change_of(size_t rank) {
  return [rank](const std::string& key, WipedText& value) {
    context::WelcomePart part;
    context::JoinRecord joined;
    if (key.find("/welcome/") == key.npos || !decode(value, &part)) return;
    if (!decode(part.entries[rank].joined, &joined)) return;
    joined.address.rails.push_back({"lo", "127.0.0.1", 8, 1500, 1e9, "tcp"});
    part.entries[rank].joined = encode(joined);
    value = encode(part);
  };
}

std::string meetings(uint64_t seed) {
  {
    const Rendezvous honest(seed, kPatience, nullptr);
    if (!honest.met(0) || !honest.met(1)) return "two ranks do not meet";
    if (!honest.have_one_secret()) return "two ranks have different secrets";
    if (honest.has_welcome()) return "the welcome is still there when all have read it";
  }
  {
    const Rendezvous misled(seed, kPatience, change_of(0));
    if (!misled.met(0) || !misled.met(1)) return "what a rank cannot notice keeps it from meeting";
    if (misled.have_one_secret()) return "ranks that were told different addresses can connect";
  }
  const Rendezvous renamed(seed, kSecond, change_of(1));
  return renamed.met(1) ? "a rank goes on with what it has not said of itself" : "";
}

std::string records(std::mt19937_64& random) {
  const Secret secret = wire::secret_from_text(std::to_string(random()));
  const std::string words = "words " + std::to_string(random());
  const WipedText sealed = context::seal(secret, "job/key", words);
  WipedText read;
  if (!context::unseal(secret, "job/key", sealed, &read)) return "an honest record is refused";
  if (context::unseal(secret, "job/other", sealed, &read)) return "a record of another place is taken";
  WipedText changed = sealed;
  changed[random() % changed.size()] ^= static_cast<char>(1 + random() % 255);
  return context::unseal(secret, "job/key", changed, &read) ? "a changed record is taken" : "";
}

std::string weak_secrets(std::mt19937_64& random) {
  const std::string digits = std::to_string(1'000'000'000'000'000 + random() % 1'000'000'000'000'000);
  if (!wire::key_from_text("secret", digits + digits)) return "a secret of 128 bits is refused";
  return wire::key_from_text("secret", digits) ? "a secret of 64 bits is taken" : "";
}

// Whoever answers with zeros in place of a proof is told nothing.
std::string store_server(std::mt19937_64& random) {
  using namespace rendezvous;
  const Nanoseconds deadline = system_clock().now() + kPatience;
  auto server = TcpServer::start("127.0.0.1", 0, kServerMemoryBytes, "job/",
                                       wire::secret_from_text(std::to_string(random())));
  if (!server) return "no server: " + server.status().to_string();
  auto socket = connect_to("127.0.0.1", (*server)->port(), deadline);
  if (!socket) return "no connection: " + socket.status().to_string();
  const std::string words = std::string(kMagic) + std::string(kProofBytes, '\0');
  if (send_all(*socket, words, deadline) != Transfer::done) return "it hears nobody";
  std::string heard(kGreetingBytes + kVerdictBytes, '\0');
  for (size_t have = 0; have < heard.size();) {
    size_t got = heard.size() - have;
    if (receive_some(*socket, heard.data() + have, &got, deadline) != Transfer::done) break;
    have += got;
  }
  const bool served = heard.substr(kGreetingBytes) != std::string(kVerdictBytes, '\0');
  return served ? "a store serves somebody without a secret" : "";
}

}  // namespace

std::string run_store_trust(uint64_t seed) {
  std::mt19937_64 random(seed);
  for (const auto part : {records, weak_secrets, store_server}) {
    const std::string wrong = part(random);
    if (!wrong.empty()) return wrong;
  }
  return meetings(seed);
}

}  // namespace nezha::simulation
