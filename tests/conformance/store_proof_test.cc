// The TCP store of a job with a secret, and those who do not have it: strangers, ranks of other jobs,
// whoever listened, and somebody who answers in the server's place.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "conformance/store_kinds.h"
#include "rendezvous/tcp_protocol.h"

namespace nezha::rendezvous {
namespace {

constexpr const char* kAnyPort = "tcp://127.0.0.1:0";

StoreKey key_of(uint8_t seed) {
  StoreKey key;
  for (std::byte& byte : key) byte = static_cast<std::byte>(seed++);
  return key;
}

uint16_t port_of_store(const Store& store) {
  const std::string text = store.describe();
  return static_cast<uint16_t>(std::stoi(text.substr(text.rfind(':') + 1)));
}

// A raw connection, of somebody on either side.
class Wire {
 public:
  explicit Wire(Descriptor socket) : socket_(std::move(socket)) {}
  static Wire to(const Store& server) {
    auto socket = connect_to("127.0.0.1", port_of_store(server), test_deadline());
    EXPECT_TRUE(socket.is_ok()) << socket.status().to_string();
    return Wire(socket ? std::move(*socket) : Descriptor());
  }

  void say(std::string_view bytes) { send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  std::string hear(size_t size) {
    std::string text;
    while (text.size() < size && wait_for(socket_, POLLIN, test_deadline()) == Ready::yes) {
      std::string part(size - text.size(), '\0');
      const ssize_t got = recv(socket_.get(), part.data(), part.size(), 0);
      if (got <= 0) break;
      text += part.substr(0, static_cast<size_t>(got));
    }
    return text;
  }
  // Up to the end of the connection.
  std::string hear_all() { return hear(1 << 20); }
  // Says the magic; the server's nonce.
  std::string greet() {
    say(kMagic);
    auto greeting = decode_greeting(hear(kGreetingBytes));
    EXPECT_TRUE(greeting.is_ok() && greeting->wants_proof);
    return greeting ? greeting->nonce : std::string();
  }

 private:
  Descriptor socket_;
};

std::string proof_of(const StoreKey& key, StoreSide side, const std::string& server_nonce) {
  const std::string mine(kStoreNonceBytes, 'm');
  return mine + store_mac_of(key, side, server_nonce, mine);
}

std::string request_for(const std::string& name) {
  const auto head = encode_request_head(Operation::get, name.size(), 0);
  return std::string(head.data(), head.size()) + name;
}

const std::string kRefusal(kVerdictBytes, '\0');

class StoreProof : public ::testing::Test {
 protected:
  StoreProof() {
    EXPECT_TRUE(server_->set("welcome", "what nobody else may read", test_deadline()).is_ok());
  }

  // Says `bytes` in place of a proof, and then asks; all that is told.
  std::string told_after(const std::function<std::string(const std::string&)>& proof) {
    Wire stranger = Wire::to(*server_);
    const std::string nonce = stranger.greet();
    stranger.say(proof(nonce) + request_for("job/welcome"));
    // As much as the verdict and an answer would be: who is served hears no end.
    return stranger.hear(kVerdictBytes + kAnswerHeadBytes);
  }

  const StoreKey key_ = key_of(1);
  const std::unique_ptr<Store> server_ = opened(kAnyPort, true, "job/", key_);
};

TEST_F(StoreProof, RanksOfTheJobAreServed) {
  const auto client = opened(server_->describe(), false, "job/", key_);
  ASSERT_NE(client, nullptr);
  auto got = client->get("welcome", test_deadline());
  ASSERT_TRUE(got.is_ok()) << got.status().to_string();
  EXPECT_EQ(*got, "what nobody else may read");
}

TEST_F(StoreProof, OthersHearNothing) {
  const std::string nonce_of_another = Wire::to(*server_).greet();
  const StoreKey wrong = key_of(2);
  const std::vector<std::function<std::string(const std::string&)>> attempts = {
      [&](const std::string&) { return std::string(kProofBytes, '\0'); },
      [&](const std::string& nonce) { return proof_of(wrong, StoreSide::client, nonce); },
      [&](const std::string& nonce) { return proof_of(StoreKey{}, StoreSide::client, nonce); },
      // What the server would say, as if it were ours, and what was right on another connection.
      [&](const std::string& nonce) { return proof_of(key_, StoreSide::server, nonce); },
      [&](const std::string&) { return proof_of(key_, StoreSide::client, nonce_of_another); },
      [&](const std::string& nonce) {
        std::string proof = proof_of(key_, StoreSide::client, nonce);
        proof.back() = static_cast<char>(proof.back() ^ 1);
        return proof;
      },
      [&](const std::string& nonce) {
        std::string proof = proof_of(key_, StoreSide::client, nonce);
        proof.front() = static_cast<char>(proof.front() ^ 1);  // another nonce than was proved
        return proof;
      },
      // No proof at all: the request stands where it should be.
      [&](const std::string&) { return request_for("job/welcome") + request_for("job/welcome"); }};
  int refused = 0;
  for (const auto& attempt : attempts) {
    // The refusal, or less: what we still say when the server closes takes its last words with it.
    EXPECT_TRUE(kRefusal.starts_with(told_after(attempt))) << "attempt " << refused;
    ++refused;
  }
  EXPECT_EQ(refused, 8);
  // The same words with the right key are a proof, so it was the key that was missing.
  Wire member = Wire::to(*server_);
  const std::string nonce = member.greet();
  member.say(proof_of(key_, StoreSide::client, nonce));
  EXPECT_EQ(member.hear(kVerdictBytes),
            store_mac_of(key_, StoreSide::server, nonce, std::string(kStoreNonceBytes, 'm')));
}

TEST_F(StoreProof, WhoProvesNothingIsDroppedInTime) {
  Wire silent = Wire::to(*server_);
  silent.greet();
  EXPECT_EQ(silent.hear_all(), "");
}

TEST_F(StoreProof, RanksThatDoNotFitAreToldAtOnce) {
  OpenOptions options;
  options.prefix = "job/";
  options.deadline = test_deadline();
  const auto open_with = [&](const std::string& address, std::optional<StoreKey> key) {
    options.key = key;
    return open_store(address, options).status();
  };
  const Status none = open_with(server_->describe(), std::nullopt);
  const Status other = open_with(server_->describe(), key_of(2));
  const auto open_server = opened(kAnyPort, true, "job/");
  const Status surplus = open_with(open_server->describe(), key_);
  const std::vector<std::pair<Status, const char*>> refusals = {
      {none, "this rank has none"}, {other, "another secret"}, {surplus, "rank 0 has none"}};
  for (const auto& [outcome, words] : refusals) {
    EXPECT_EQ(outcome.code(), Code::invalid_argument) << outcome.to_string();
    EXPECT_NE(outcome.message().find(words), std::string::npos) << outcome.to_string();
  }
}

// Who answers in the server's place hears one proof, which opens nothing, and is not believed.
TEST_F(StoreProof, AnImpostorHearsNothingAndIsNotBelieved) {
  const std::vector<std::function<std::string(const std::string&, const std::string&)>> verdicts = {
      [](const std::string&, const std::string&) { return kRefusal; },
      // The rank's own MAC, and one made with another key.
      [](const std::string&, const std::string& proof) { return proof.substr(kStoreNonceBytes); },
      [](const std::string& nonce, const std::string& proof) {
        return store_mac_of(key_of(2), StoreSide::server, nonce, proof.substr(0, kStoreNonceBytes));
      }};
  for (const auto& verdict : verdicts) {
    auto listener = listen_on("127.0.0.1", 0);
    ASSERT_TRUE(listener.is_ok());
    std::string heard_later;
    std::thread impostor([&] {
      if (wait_for(*listener, POLLIN, test_deadline()) != Ready::yes) return;
      Wire victim(Descriptor(accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC)));
      EXPECT_EQ(victim.hear(kMagicBytes), kMagic);
      const std::string nonce(kStoreNonceBytes, 'n');
      victim.say(encode(Greeting{true, nonce}));
      victim.say(verdict(nonce, victim.hear(kProofBytes)));
      heard_later = victim.hear_all();
    });
    OpenOptions options;
    options.key = key_;
    options.deadline = test_deadline();
    const auto store = open_store("tcp://127.0.0.1:" + std::to_string(port_of(*listener)), options);
    EXPECT_EQ(store.status().code(), Code::invalid_argument) << store.status().to_string();
    impostor.join();
    EXPECT_EQ(heard_later, "");
  }
}

// Without a secret anybody is served, but nobody is told what keys there are.
TEST(OpenStore, TellsNobodyItsPrefix) {
  const auto server = opened(kAnyPort, true, "a-job-of-ours/");
  Wire stranger = Wire::to(*server);
  stranger.say(kMagic);
  stranger.hear(kGreetingBytes);
  stranger.say(request_for("key"));
  const auto head = encode_answer_head(Code::mismatch, 0);
  EXPECT_EQ(stranger.hear(kAnswerHeadBytes), std::string(head.data(), head.size()));
}

}  // namespace
}  // namespace nezha::rendezvous
