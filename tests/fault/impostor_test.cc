// Who listens in the place of a rank, and does not hold the job's secret: the rank that dials sees it,
// and the honest job forms and works without that rail.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>

#include "base/log.h"
#include "support/rail_job.h"
#include "support/stranger.h"
#include "transport/tcp/tcp_address.h"
#include "wire/handshake.h"

namespace nezha::testing {
namespace {

using wire::Hello;
using wire::Refusal;
using wire::Secret;

struct Impostor {
  const char* name;
  // Gets rank 0's Hello, as it arrived, and the connection.
  std::function<void(Stranger&, const RailJob&, const Hello&)> act;
};

void PrintTo(const Impostor& impostor, std::ostream* out) { *out << impostor.name; }

Message challenge_with(const Secret& secret, const Hello& hello) {
  Message challenge;
  wire::make_challenge(secret, hello, nonce_of(0x70), challenge);
  return challenge;
}

Impostor says(const char* name, std::function<Message(const RailJob&, const Hello&)> answer) {
  return {name, [answer](Stranger& stranger, const RailJob& job, const Hello& hello) {
            stranger.say(answer(job, hello));
          }};
}

Impostor says_text(const char* name, std::string text) {
  return {name, [text](Stranger& stranger, const RailJob&, const Hello&) {
            stranger.say(text);
            stranger.stop_talking();
          }};
}

Message refusal_of(uint8_t reason) { return with_bytes(Message{}, 0, {0x7F, 'N', 'Z', 'R', reason}); }

std::vector<Impostor> impostors() {
  return {
      says("NoKey",
           [](const RailJob&, const Hello&) {
             return with_bytes(Message{}, 0, {0x7F, 'N', 'Z', 'C'});
           }),
      says("WrongKey",
           [](const RailJob&, const Hello& hello) {
             return challenge_with(wire::secret_from_text("a guess"), hello);
           }),
      says("ReplayedChallenge",
           [](const RailJob& job, const Hello& hello) {
             Hello earlier = hello;
             earlier.nonce = nonce_of(0x33);
             return challenge_with(job.secret(), earlier);
           }),
      says("ChallengeOfAnotherRank",
           [](const RailJob& job, const Hello& hello) {
             Hello other = hello;
             other.acceptor_rank = 2;
             return challenge_with(job.secret(), other);
           }),
      says("ChallengeOfAnotherRail",
           [](const RailJob& job, const Hello& hello) {
             Hello other = hello;
             other.acceptor_rail = 1;
             return challenge_with(job.secret(), other);
           }),
      says("ChallengeOfAnotherEpoch",
           [](const RailJob& job, const Hello& hello) {
             Hello other = hello;
             other.epoch += 1;
             return challenge_with(job.secret(), other);
           }),
      says("ChallengeWithItsNonceChanged",
           [](const RailJob& job, const Hello& hello) {
             return with_bytes(challenge_with(job.secret(), hello), 4, {0});
           }),
      says("ChallengeWithPadding",
           [](const RailJob& job, const Hello& hello) {
             return with_bytes(challenge_with(job.secret(), hello), 63, {1});
           }),
      says("TheHelloBack", [](const RailJob&, const Hello& hello) { return encoded(hello); }),
      says("AFrame", [](const RailJob&, const Hello&) { return data_frame(); }),
      says("RefusalWithoutAReason", [](const RailJob&, const Hello&) { return refusal_of(0); }),
      says("RefusalWithAnUnknownReason", [](const RailJob&, const Hello&) { return refusal_of(200); }),
      says("RefusalThatIsKnown", [](const RailJob&, const Hello&) { return refusal_of(8); }),
      says_text("Http", "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
      says_text("AMegabyte", std::string(1 << 20, 'x')),
      says_text("HalfAChallenge", std::string("\x7FNZC", 4) + std::string(30, 'x')),
      says_text("Nothing", ""),
  };
}

class AttackedDialer : public ::testing::TestWithParam<Impostor> {
 protected:
  void SetUp() override { log::set_level(log::Level::error); }
};

// Rank 0 was told a wrong port for rank 1's first rail. It must see that nobody there is rank 1, give
// away nothing but its Hello, and use the other rail.
TEST_P(AttackedDialer, BelievesNothingAndUsesTheOtherRail) {
  RailJob job({.ranks = 2, .rails = 2});
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in here = first_rail(0);
  socklen_t length = sizeof(here);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&here), length), 0);
  ASSERT_EQ(listen(listener, 8), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&here), &length), 0);
  job.request_of(0).ranks[1].rails[0].blob =
      transport::encode(transport::TcpPorts{0, ntohs(here.sin_port)});
  job.start(0);
  job.start(1);
  pollfd watched{listener, POLLIN, 0};
  ASSERT_GT(poll(&watched, 1, kStrangerPatienceMs), 0);
  std::string told;
  {
    Stranger stranger = Stranger::accepted(accept(listener, nullptr, nullptr));
    ASSERT_TRUE(stranger.hear(kMessageBytes));
    Hello hello;
    ASSERT_EQ(wire::decode(stranger.message(0), &hello), Refusal::none);
    GetParam().act(stranger, job, hello);
    told = stranger.hear_all();
  }
  close(listener);  // who closes without a word is dialled again
  for (const Status& outcome : job.finish()) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
  EXPECT_EQ(told.size(), kMessageBytes) << "an impostor was told more than the Hello";
  EXPECT_EQ(job.connections_of(0), 1);
  EXPECT_EQ(job.connections_of(1), 1);
  ASSERT_EQ(job.left_out_by(0).size(), 1u);
  EXPECT_NE(job.left_out_by(0)[0].find("lo1"), std::string::npos) << job.left_out_by(0)[0];
}

INSTANTIATE_TEST_SUITE_P(Impostors, AttackedDialer, ::testing::ValuesIn(impostors()),
                         [](const auto& at) { return std::string(at.param.name); });

}  // namespace
}  // namespace nezha::testing
