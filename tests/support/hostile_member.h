// HostileMember: one connection of somebody who holds a job's key and speaks to an aggregation node
// without a library: any ticket, any proof, any frames.
//
// Contract: as Stranger; the node listens on 127.1.0.1. `join` is the way of an honest member up to its
// first frame; each of its parts can be said alone.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "aggregation/protocol/ticket.h"
#include "support/stranger.h"
#include "wire/frame.h"

namespace nezha::testing {

class HostileMember {
 public:
  HostileMember(uint16_t port, const aggregation::Ticket& ticket, const wire::Secret& key)
      : ticket_(ticket), key_(key), stranger_(port) {}

  void show_ticket() { show(aggregation::make_ticket(ticket_, key_)); }
  void show(const aggregation::TicketBytes& bytes) { stranger_.say(bytes.data(), bytes.size()); }
  // Hello, and the answer: a challenge or a refusal.
  bool say_hello(int rank) {
    hello_.job = ticket_.run;
    hello_.world_size = ticket_.ranks + ticket_.nodes;
    hello_.dialer_rank = static_cast<uint32_t>(rank);
    hello_.acceptor_rank = ticket_.ranks;
    hello_.epoch = 1;
    hello_.nonce = nonce_of(static_cast<uint8_t>(ticket_.nonce));
    stranger_.say(encoded(hello_));
    return stranger_.hear(kMessageBytes);
  }
  // `none`: the node has shown that it holds the key.
  wire::Refusal answer() { return wire::verify_challenge(key_, hello_, stranger_.message(0), &theirs_); }
  void prove() {
    Message proof;
    wire::make_proof(key_, hello_, theirs_, proof);
    stranger_.say(proof);
  }
  // The test of the connection (transport/tcp/tcp_echo.h), and its verdict: it is used.
  bool pass_test() {
    constexpr size_t kTestBytes = 8 * 64 + 48 * 1024;
    stranger_.say(std::string(kTestBytes, '\0'));
    if (!stranger_.hear(kMessageBytes + kTestBytes)) return false;
    std::string verdict = "NZV1";
    verdict.resize(16);
    verdict[4] = verdict[5] = 1;
    stranger_.say(verdict);
    return true;
  }
  bool join(int rank) {
    show_ticket();
    if (!say_hello(rank) || answer() != wire::Refusal::none) return false;
    prove();
    return pass_test();
  }

  void send(const wire::FrameHeader& header, const std::string& payload = "") {
    std::array<std::byte, wire::kHeaderBytes> bytes;
    wire::encode(header, bytes);
    batch_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    batch_ += payload;
    if (batch_.size() >= kBatchBytes) flush();
  }
  void flush() {
    stranger_.say(batch_);
    batch_.clear();
  }
  // Waits for the end of the connection.
  const std::string& hear_all() { return stranger_.hear_all(); }

 private:
  static constexpr size_t kBatchBytes = 64 * 1024;

  const aggregation::Ticket ticket_;
  const wire::Secret key_;
  Stranger stranger_;
  wire::Hello hello_;
  wire::Nonce theirs_{};
  std::string batch_;
};

}  // namespace nezha::testing
