// A rank asks what calls itself an aggregation node for its topology, and the connection ends too early:
// the error says when it ended, and what to look at.
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "aggregation/client/topology_client.h"
#include "support/stranger.h"
#include "wire/little_endian.h"

namespace nezha::testing {
namespace {

constexpr uint64_t kJob = 7;

aggregation::JobKey job_key() {
  return {kJob, aggregation::job_key_of(wire::secret_from_text("of the node"), kJob)};
}

class PretendedNode {
 public:
  // `node`: what it does with the one connection that it accepts, before it closes it.
  explicit PretendedNode(std::function<void(Stranger&)> node) : node_(std::move(node)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in here = first_rail(0);
    socklen_t length = sizeof(here);
    EXPECT_EQ(bind(listener_, reinterpret_cast<const sockaddr*>(&here), length), 0);
    EXPECT_EQ(listen(listener_, 1), 0);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&here), &length);
    port_ = ntohs(here.sin_port);
    thread_ = std::thread([this] {
      Stranger caller = Stranger::accepted(accept(listener_, nullptr, nullptr));
      node_(caller);
    });
  }
  ~PretendedNode() {
    thread_.join();
    close(listener_);
  }

  std::string asked() const {
    const auto answer = aggregation::fetch_topology({"127.1.0.1", port_, "", job_key()});
    EXPECT_FALSE(answer);
    EXPECT_EQ(answer.status().code(), Code::peer_lost);
    return answer.status().message();
  }

 private:
  const std::function<void(Stranger&)> node_;
  int listener_;
  uint16_t port_ = 0;
  std::thread thread_;
};

constexpr size_t kOpening = aggregation::kTicketBytes + wire::kHelloBytes;

// Answers the caller's Hello and takes its proof, as a node that has the key.
void prove(Stranger& caller) {
  caller.hear(kOpening);
  const Message bytes = caller.bytes_at(aggregation::kTicketBytes);
  wire::Hello hello;
  EXPECT_EQ(wire::decode(bytes, &hello), wire::Refusal::none);
  Message challenge;
  wire::make_challenge(job_key().key, hello, nonce_of(0x41), challenge);
  caller.say(challenge);
  caller.hear(kOpening + wire::kProofBytes);
}

void say_beginning_of_100_bytes(Stranger& caller, size_t size) {
  std::array<std::byte, sizeof(uint32_t)> length;
  wire::store_le(length.data(), uint32_t{100});
  caller.say(length.data(), length.size());
  caller.say(std::string(size, '{'));
}

void expect_says(const std::string& message, const char* wanted) {
  EXPECT_NE(message.find("aggregation node 127.1.0.1, port"), std::string::npos) << message;
  EXPECT_NE(message.find(wanted), std::string::npos) << message;
}

TEST(TopologyRequest, ClosedDuringAuthentication) {
  const PretendedNode node([](Stranger& caller) { caller.hear(kOpening); });
  expect_says(node.asked(), "closed during authentication; check that both ends have the same key");
}

TEST(TopologyRequest, ClosedBehindTheProof) {
  const PretendedNode node(prove);
  expect_says(node.asked(), "closed before the topology came; check that both ends have the same key");
}

TEST(TopologyRequest, ClosedWithinTheTopology) {
  const PretendedNode node([](Stranger& caller) {
    prove(caller);
    say_beginning_of_100_bytes(caller, 42);
  });
  expect_says(node.asked(), "closed after 42 of the topology's 100 bytes");
}

TEST(TopologyRequest, MoreThanATopology) {
  const PretendedNode node([](Stranger& caller) {
    prove(caller);
    caller.say(std::string(aggregation::kTopologyBytesMax + 100, '{'));
  });
  expect_says(node.asked(), "the node sent more than the");
}

}  // namespace
}  // namespace nezha::testing
