#include "planted/trust.h"

#include <random>
#include <vector>

#include "aggregation/protocol/ticket.h"
#include "aggregation/server/job.h"
#include "engine/engine.h"
#include "planted/store_trust.h"
#include "support/fake_wire.h"
#include "fabric/ofi_message.h"
#include "wire/handshake.h"

namespace nezha::simulation {
namespace {

using Message = std::array<std::byte, wire::kHelloBytes>;

// One honest handshake of a rank with another, and what becomes of it with a bit changed on the way.
class Trust {
 public:
  explicit Trust(uint64_t seed) : random_(seed) {
    for (auto& byte : key_) byte = static_cast<std::byte>(random_());
    for (auto& byte : theirs_) byte = static_cast<std::byte>(random_());
    for (auto& byte : hello_.nonce) byte = static_cast<std::byte>(random_());
    hello_.job = random_();
    hello_.world_size = 4;
    hello_.acceptor_rank = 1;
    hello_.acceptor_rail = static_cast<uint16_t>(random_() % kRails);
  }

  std::string run() {
    for (const auto part : {&Trust::handshake, &Trust::rails, &Trust::tickets, &Trust::replay,
                            &Trust::budgets, &Trust::node, &Trust::token}) {
      const std::string wrong = (this->*part)();
      if (!wrong.empty()) return wrong;
    }
    return "";
  }

 private:
  static constexpr uint16_t kRails = 3;

  template <class Bytes>
  Bytes changed(Bytes bytes, size_t begin, size_t size) {
    bytes[begin + random_() % size] ^= static_cast<std::byte>(1 + random_() % 255);
    return bytes;
  }

  std::string handshake() {
    constexpr size_t kChallengeMacAt = 20;
    constexpr size_t kProofMacAt = 4;
    Message challenge;
    Message proof;
    wire::make_challenge(key_, hello_, theirs_, challenge);
    wire::make_proof(key_, hello_, theirs_, proof);
    wire::Nonce nonce;
    if (wire::verify_challenge(key_, hello_, challenge, &nonce) != wire::Refusal::none) {
      return "an honest challenge is refused";
    }
    if (wire::verify_proof(key_, hello_, theirs_, proof) != wire::Refusal::none) {
      return "an honest proof is refused";
    }
    challenge = changed(challenge, kChallengeMacAt, wire::kMacBytes);
    proof = changed(proof, kProofMacAt, wire::kMacBytes);
    if (wire::verify_challenge(key_, hello_, challenge, &nonce) == wire::Refusal::none) {
      return "an acceptor without the key is believed";
    }
    if (wire::verify_proof(key_, hello_, theirs_, proof) == wire::Refusal::none) {
      return "a dialer without the key is believed";
    }
    return "";
  }

  std::string rails() {
    const std::vector<uint16_t> counts(hello_.world_size, kRails);
    const wire::Expected expected{hello_.job, hello_.world_size, hello_.acceptor_rank, counts};
    if (wire::check_hello(hello_, expected) != wire::Refusal::none) return "an honest hello is refused";
    for (const auto index : {&wire::Hello::acceptor_rail, &wire::Hello::dialer_rail}) {
      wire::Hello other = hello_;
      other.*index = static_cast<uint16_t>(kRails + random_() % 1000);
      if (wire::check_hello(other, expected) == wire::Refusal::none) {
        return "a rail that does not exist is taken";
      }
    }
    return "";
  }

  std::string tickets() {
    constexpr size_t kMacAt = 40;
    const aggregation::Ticket ticket{random_(), random_(), 4, 1, 0, random_()};
    const auto bytes = aggregation::make_ticket(ticket, aggregation::job_key_of(key_, ticket.job));
    aggregation::Ticket read;
    if (aggregation::check_ticket(bytes, key_, &read) != wire::Refusal::none) {
      return "an honest ticket is refused";
    }
    if (!(read == ticket)) return "a ticket says something else than it was made with";
    const auto changed_mac = changed(bytes, kMacAt, wire::kMacBytes);
    if (aggregation::check_ticket(changed_mac, key_, &read) == wire::Refusal::none) {
      return "a ticket without the key is believed";
    }
    // Of another job, whose key does not open this one.
    const auto foreign = aggregation::make_ticket(ticket, aggregation::job_key_of(key_, ticket.job + 1));
    if (aggregation::check_ticket(foreign, key_, &read) == wire::Refusal::none) {
      return "another job's key is believed";
    }
    return "";
  }

  std::string replay() {
    aggregation::Budget node(1 << 20);
    aggregation::Job job(random_(), 1 << 20, node);
    const uint64_t nonce = random_();
    if (job.has_seen(nonce) || !job.remember(nonce)) return "a fresh ticket is refused";
    if (!job.has_seen(nonce) || job.remember(nonce)) return "a ticket is taken twice";
    return "";
  }

  std::string budgets() {
    aggregation::Budget node(1000);
    aggregation::Budget one(800, &node), other(800, &node);
    if (!one.charge(700)) return "what a job may have is refused";
    if (one.charge(101)) return "a job has more than it may";
    if (other.charge(301)) return "jobs have more than their node";
    one.give(700);
    if (!other.charge(800)) return "what a job gave back is gone";
    return "";
  }

  // An aggregation node's engine, and a member that speaks of what the node has not accepted.
  std::string node() {
    constexpr uint64_t kAccepted = 3, kUnknown = engine::CommNumber::kFirstParked + 1;
    auto loop = progress::Loop::create(system_clock(), 0);
    if (!loop) return "no loop";
    const progress::Loop::Lock lock(**loop);
    engine::EngineOptions options;
    options.world_size = 2;
    options.rails = 1;
    options.chunk_bytes = 4096;
    options.serves = true;
    engine::Engine engine(**loop, options);
    engine::GroupRequest request;
    request.comm = kAccepted;
    request.members = {0, 1};
    if (!engine.create_group(std::move(request))) return "no group";
    transport::ConnectionEvents& events = engine.connection_events();
    transport::Connection member(events, transport::FakeLink::create()->wire(0), {});
    member.peer = 1;
    wire::FrameHeader header;
    header.comm = kUnknown + random_() % 1000;
    header.length = 100;
    if (!events.on_frame(member, header).refused) return "a node keeps an unknown communicator's frame";
    header.comm = kAccepted;
    header.length = static_cast<uint32_t>(options.chunk_bytes + 1);
    if (!events.on_frame(member, header).refused) return "a node takes a frame longer than its chunks";
    return "";
  }

  std::string token() {
    transport::OfiPreamble said;
    said.token = random_();
    std::array<std::byte, transport::kPreambleBytes> bytes;
    encode(said, bytes.data());
    transport::OfiPreamble heard;
    if (!decode(bytes, said.token, &heard)) return "an honest message is not heard";
    if (decode(bytes, said.token ^ 1 << random_() % 31, &heard)) return "another token is believed";
    return "";
  }

  std::mt19937_64 random_;
  wire::Secret key_;
  wire::Nonce theirs_;
  wire::Hello hello_;
};

}  // namespace

std::string run_trust(uint64_t seed) {
  const std::string wrong = Trust(seed).run();
  return wrong.empty() ? run_store_trust(seed) : wrong;
}

}  // namespace nezha::simulation
