// Who knows everything but the job's secret, and connects to a rank that accepts. Every attempt
// is refused, and the honest job forms and works.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <thread>

#include "base/log.h"
#include "support/rail_job.h"
#include "support/stranger.h"
#include "wire/handshake.h"

namespace nezha::testing {
namespace {

using wire::Hello;
using wire::Refusal;
using wire::Secret;

constexpr uint32_t kRanks = 3;
// Rank 1 is attacked. Rank 0 dials it, and it dials rank 2.
constexpr uint32_t kVictim = 1;
constexpr uint16_t kRails = 2;
constexpr uint16_t kLanes = 2;
constexpr RailJobOptions kJob = {.ranks = kRanks, .rails = kRails, .streams_per_rail = kLanes};

// What rank 0 would say.
Hello honest_hello() {
  Hello hello;
  hello.job = RailJob::kJob;
  hello.world_size = kRanks;
  hello.dialer_rank = 0;
  hello.acceptor_rank = kVictim;
  hello.nonce = nonce_of(0x20);
  return hello;
}

Message proof_for(const Secret& secret, const Hello& hello, const Message& challenge) {
  wire::Nonce nonce;
  std::memcpy(nonce.data(), challenge.data() + 4, nonce.size());
  Message proof;
  wire::make_proof(secret, hello, nonce, proof);
  return proof;
}

struct Recording {
  Hello hello;
  Message hello_message{};
  Message challenge{};
  Message proof{};
};

// What a listener on the network has of one handshake that was honest to its end.
Recording record(const RailJob& job) {
  Recording recording;
  recording.hello = honest_hello();
  recording.hello_message = encoded(recording.hello);
  Stranger dialer(job.port_of(kVictim));
  dialer.say(recording.hello_message);
  EXPECT_TRUE(dialer.hear(kMessageBytes));
  recording.challenge = dialer.message(0);
  recording.proof = proof_for(job.secret(), recording.hello, recording.challenge);
  dialer.say(recording.proof);
  const Message ping{};
  dialer.say(ping);
  EXPECT_TRUE(dialer.hear(2 * kMessageBytes)) << "an honest handshake was refused";
  return recording;
}

enum class Answer : uint8_t {
  nothing,              // closed without a word
  refusal,              // in place of a challenge
  challenge_and_end,    // a challenge, then closed without a word
  challenge_and_refusal,
};

struct Attack {
  const char* name;
  Answer answer;
  Refusal reason;
  std::function<void(Stranger&, const RailJob&)> act;
};

void PrintTo(const Attack& attack, std::ostream* out) { *out << attack.name; }

// A Hello that is not as it should be in one field.
Attack hello_with(const char* name, Refusal reason, std::function<void(Hello&)> change) {
  return {name, Answer::refusal, reason, [change](Stranger& stranger, const RailJob&) {
            Hello hello = honest_hello();
            change(hello);
            stranger.say(encoded(hello));
          }};
}

// A sound Hello, and then what `answer` makes of the challenge in place of a proof.
Attack proof_with(const char* name, Refusal reason,
                  std::function<Message(const RailJob&, const Message& challenge)> answer) {
  const Answer expected = reason == Refusal::bad_magic ? Answer::challenge_and_end
                                                       : Answer::challenge_and_refusal;
  return {name, expected, reason, [answer](Stranger& stranger, const RailJob& job) {
            stranger.say(encoded(honest_hello()));
            if (stranger.hear(kMessageBytes)) stranger.say(answer(job, stranger.message(0)));
          }};
}

// First message bytes that are no Hello.
Attack words(const char* name, std::string text, Answer answer = Answer::nothing,
             Refusal reason = Refusal::none) {
  return {name, answer, reason, [text](Stranger& stranger, const RailJob&) {
            stranger.say(text);
            stranger.stop_talking();
          }};
}

std::vector<Attack> without_the_key() {
  return {
      proof_with("NoKey", Refusal::bad_mac,
                 [](const RailJob&, const Message&) {
                   return with_bytes(Message{}, 0, {0x7F, 'N', 'Z', 'P'});
                 }),
      proof_with("WrongKey", Refusal::bad_mac,
                 [](const RailJob&, const Message& challenge) {
                   return proof_for(wire::secret_from_text("a guess"), honest_hello(), challenge);
                 }),
      proof_with("KeyOfZeros", Refusal::bad_mac,
                 [](const RailJob&, const Message& challenge) {
                   return proof_for(Secret{}, honest_hello(), challenge);
                 }),
      proof_with("EmptyKey", Refusal::bad_mac,
                 [](const RailJob&, const Message& challenge) {
                   return proof_for(wire::secret_from_text(""), honest_hello(), challenge);
                 }),
      proof_with("OneBitOfTheMacWrong", Refusal::bad_mac,
                 [](const RailJob& job, const Message& challenge) {
                   Message proof = proof_for(job.secret(), honest_hello(), challenge);
                   proof[35] ^= std::byte{1};
                   return proof;
                 }),
      proof_with("OnlyTheFirstHalfOfTheMac", Refusal::bad_mac,
                 [](const RailJob& job, const Message& challenge) {
                   Message proof = proof_for(job.secret(), honest_hello(), challenge);
                   std::fill_n(proof.begin() + 20, 16, std::byte{0});
                   return proof;
                 }),
      proof_with("SomethingBehindTheMac", Refusal::malformed,
                 [](const RailJob& job, const Message& challenge) {
                   Message proof = proof_for(job.secret(), honest_hello(), challenge);
                   proof[63] = std::byte{1};
                   return proof;
                 }),
      proof_with("AFrameInPlaceOfTheProof", Refusal::bad_magic,
                 [](const RailJob&, const Message&) { return data_frame(); }),
      proof_with("AVerdictInPlaceOfTheProof", Refusal::bad_magic,
                 [](const RailJob&, const Message&) {
                   return with_bytes(Message{}, 0, {'N', 'Z', 'V', '1', 1, 1});
                 }),
      proof_with("TheHelloAgainInPlaceOfTheProof", Refusal::bad_magic,
                 [](const RailJob&, const Message&) { return encoded(honest_hello()); }),
  };
}

std::vector<Attack> replays_and_reflections() {
  return {
      proof_with("ReplayedProof", Refusal::bad_mac,
                 [](const RailJob& job, const Message&) { return record(job).proof; }),
      {"ReplayedHandshakeInOnePiece", Answer::challenge_and_refusal, Refusal::bad_mac,
       [](Stranger& stranger, const RailJob& job) {
         const Recording recording = record(job);
         stranger.say(text_of(recording.hello_message) + text_of(recording.proof));
       }},
      {"ReplayedSessionWithItsTraffic", Answer::challenge_and_refusal, Refusal::bad_mac,
       [](Stranger& stranger, const RailJob& job) {
         const Recording recording = record(job);
         stranger.say(text_of(recording.hello_message) + text_of(recording.proof) +
                      std::string(4 * 64 + 48 * 1024, '\0') + text_of(data_frame()));
       }},
      proof_with("ReflectedMac", Refusal::bad_mac,
                 [](const RailJob&, const Message& challenge) {
                   Message proof = with_bytes(Message{}, 0, {0x7F, 'N', 'Z', 'P'});
                   std::copy_n(challenge.begin() + 20, wire::kMacBytes, proof.begin() + 4);
                   return proof;
                 }),
      proof_with("ReflectedChallenge", Refusal::bad_magic,
                 [](const RailJob&, const Message& challenge) { return challenge; }),
      // The victim is made to compute a MAC over the nonce it has just given out, on a second connection.
      proof_with("MacFromAParallelSession", Refusal::bad_mac,
                 [](const RailJob& job, const Message& challenge) {
                   Hello hello = honest_hello();
                   std::memcpy(hello.nonce.data(), challenge.data() + 4, hello.nonce.size());
                   Stranger second(job.port_of(kVictim));
                   second.say(encoded(hello));
                   EXPECT_TRUE(second.hear(kMessageBytes));
                   Message proof = with_bytes(Message{}, 0, {0x7F, 'N', 'Z', 'P'});
                   const Message answer = second.message(0);
                   std::copy_n(answer.begin() + 20, wire::kMacBytes, proof.begin() + 4);
                   return proof;
                 }),
      proof_with("ProofOfAnotherConnection", Refusal::bad_mac,
                 [](const RailJob& job, const Message&) {
                   // Made for a challenge that was given out at the same time to somebody else.
                   Stranger second(job.port_of(kVictim));
                   second.say(encoded(honest_hello()));
                   EXPECT_TRUE(second.hear(kMessageBytes));
                   return proof_for(job.secret(), honest_hello(), second.message(0));
                 }),
      words("ReflectedRefusal", [] {
        Message refusal;
        wire::make_refusal(Refusal::bad_mac, refusal);
        return text_of(refusal);
      }()),
  };
}

// A proof that was honest for one Hello, with another Hello in front of it.
Attack stolen(const char* name, std::function<void(Hello&)> change) {
  return {name, Answer::challenge_and_refusal, Refusal::bad_mac,
          [change](Stranger& stranger, const RailJob& job) {
            Hello hello = honest_hello();
            change(hello);
            stranger.say(encoded(hello));
            if (!stranger.hear(kMessageBytes)) return;
            // Whoever can alter packets lets rank 0 prove itself, and changes what it said of itself.
            stranger.say(proof_for(job.secret(), honest_hello(), stranger.message(0)));
          }};
}

std::vector<Attack> thefts() {
  return {
      stolen("RankTheft", [](Hello& hello) { hello.dialer_rank = 2; }),
      stolen("RailTheft", [](Hello& hello) { hello.dialer_rail = 1; }),
      stolen("LaneTheft", [](Hello& hello) { hello.lane = 1; }),
      stolen("NewerEpoch", [](Hello& hello) { hello.epoch = 1; }),
      stolen("LastEpoch", [](Hello& hello) { hello.epoch = UINT32_MAX; }),
      stolen("AnotherNonce", [](Hello& hello) { hello.nonce = nonce_of(0x21); }),
      hello_with("TheVictimItself", Refusal::not_my_rank,
                 [](Hello& hello) { hello.dialer_rank = kVictim; }),
      hello_with("ForAnotherRank", Refusal::not_my_rank,
                 [](Hello& hello) { hello.acceptor_rank = 2; }),
      hello_with("RankBehindTheLast", Refusal::rank_out_of_range,
                 [](Hello& hello) { hello.dialer_rank = kRanks; }),
      hello_with("RankThatIsMinusOne", Refusal::rank_out_of_range,
                 [](Hello& hello) { hello.dialer_rank = UINT32_MAX; }),
      hello_with("AcceptorBehindTheLast", Refusal::rank_out_of_range,
                 [](Hello& hello) { hello.acceptor_rank = 0x80000001; }),
      hello_with("RailBehindTheLast", Refusal::rail_out_of_range,
                 [](Hello& hello) { hello.acceptor_rail = kRails; }),
      hello_with("RailThatIsMinusOne", Refusal::rail_out_of_range,
                 [](Hello& hello) { hello.acceptor_rail = UINT16_MAX; }),
      hello_with("TheVictimsOtherRail", Refusal::rail_out_of_range,
                 [](Hello& hello) { hello.acceptor_rail = 1; }),
      hello_with("DialersRailBehindTheLast", Refusal::rail_out_of_range,
                 [](Hello& hello) { hello.dialer_rail = kRails; }),
      hello_with("DialersRailThatIsMinusOne", Refusal::rail_out_of_range,
                 [](Hello& hello) { hello.dialer_rail = UINT16_MAX; }),
      hello_with("LaneBehindTheLast", Refusal::lane_out_of_range,
                 [](Hello& hello) { hello.lane = kLanes; }),
      hello_with("LaneThatIsMinusOne", Refusal::lane_out_of_range,
                 [](Hello& hello) { hello.lane = UINT16_MAX; }),
      hello_with("AnotherJob", Refusal::wrong_job, [](Hello& hello) { hello.job ^= 1; }),
      hello_with("JobZero", Refusal::wrong_job, [](Hello& hello) { hello.job = 0; }),
      hello_with("AnotherWorldSize", Refusal::wrong_world_size,
                 [](Hello& hello) { hello.world_size = kRanks + 1; }),
      hello_with("NoWorld", Refusal::wrong_world_size, [](Hello& hello) { hello.world_size = 0; }),
      {"ThisJobWithTheSecretOfAnother", Answer::challenge_and_refusal, Refusal::bad_mac,
       [](Stranger& stranger, const RailJob&) {
         const Secret other = wire::secret_from_text("the secret of another job");
         stranger.say(encoded(honest_hello()));
         if (stranger.hear(kMessageBytes)) {
           stranger.say(proof_for(other, honest_hello(), stranger.message(0)));
         }
       }},
  };
}

Attack version_of(const char* name, uint16_t version) {
  return hello_with(name, Refusal::bad_version, [version](Hello& hello) { hello.version = version; });
}

std::vector<Attack> forms() {
  const std::string hello = text_of(encoded(honest_hello()));
  const std::string padded = text_of(with_bytes(encoded(honest_hello()), 63, {1}));
  const std::string tls_hello = std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xFC\x03\x03", 11) +
                                std::string(600, '\x5A');
  return {
      version_of("Downgrade", wire::kProtocolVersion - 1),
      version_of("Upgrade", wire::kProtocolVersion + 1),
      version_of("LastVersion", UINT16_MAX),
      words("PaddingThatIsNotZero", padded, Answer::refusal, Refusal::malformed),
      words("TruncatedHello", hello.substr(0, 63)),
      words("OneByte", hello.substr(0, 1)),
      words("NoByte", ""),
      words("HelloAndGone", hello, Answer::challenge_and_end),
      words("HelloAndHalfAProof", hello + std::string("\x7FNZP", 4) + std::string(20, 'x'),
            Answer::challenge_and_end),
      words("ExtraBytesBehindTheHello", hello + std::string(64, 'x'), Answer::challenge_and_end),
      words("FramesBehindTheHello", hello + text_of(data_frame()) + std::string(1 << 16, 'x'),
            Answer::challenge_and_end),
      words("Http", "GET /metrics HTTP/1.1\r\nHost: rail\r\nUser-Agent: a scanner\r\n\r\n"),
      words("Tls", tls_hello),
      words("Zeros", std::string(64, '\0')),
      words("AMegabyte", std::string(1 << 20, 'N')),
      words("AFrame", text_of(data_frame())),
      words("AProof", text_of(with_bytes(Message{}, 0, {0x7F, 'N', 'Z', 'P'}))),
  };
}

std::vector<Attack> all_attacks() {
  std::vector<Attack> all;
  for (const auto& some : {without_the_key(), replays_and_reflections(), thefts(), forms()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

void expect_answer(const Attack& attack, Stranger& stranger) {
  const std::string heard = stranger.hear_all();
  const bool challenged = attack.answer == Answer::challenge_and_end ||
                          attack.answer == Answer::challenge_and_refusal;
  const bool refused = attack.answer == Answer::refusal ||
                       attack.answer == Answer::challenge_and_refusal;
  const size_t messages = size_t{challenged} + size_t{refused};
  // Closing on words that were never read takes an answer that is still on its way along.
  ASSERT_EQ(heard.size() % kMessageBytes, 0u);
  ASSERT_LE(heard.size(), messages * kMessageBytes) << "a stranger was told more than he may know";
  if (heard.size() < messages * kMessageBytes) return;
  if (challenged) {
    EXPECT_EQ(heard.substr(0, 4), "\x7FNZC");
  }
  if (refused) {
    const Message last = stranger.message(messages - 1);
    EXPECT_EQ(text_of(last).substr(0, 4), "\x7FNZR");
    EXPECT_EQ(std::to_integer<int>(last[4]), static_cast<int>(attack.reason));
  }
}

class AttackedAcceptor : public ::testing::TestWithParam<Attack> {
 protected:
  void SetUp() override { log::set_level(log::Level::error); }
};

TEST_P(AttackedAcceptor, RefusesAndTheJobForms) {
  RailJob job(kJob);
  job.start(kVictim);
  {
    Stranger stranger(job.port_of(kVictim));
    GetParam().act(stranger, job);
    expect_answer(GetParam(), stranger);
  }
  for (const Status& outcome : job.finish()) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
  for (int rank = 0; rank < static_cast<int>(kRanks); ++rank) {
    EXPECT_EQ(job.connections_of(rank), (static_cast<int>(kRanks) - 1) * kRails * kLanes);
  }
}

INSTANTIATE_TEST_SUITE_P(Attacks, AttackedAcceptor, ::testing::ValuesIn(all_attacks()),
                         [](const auto& at) { return std::string(at.param.name); });

// The positive control: with the secret, the same conversation is accepted.
TEST(Attacked, TheSecretIsWhatDecides) {
  RailJob job({.ranks = kRanks});
  job.start(kVictim);
  record(job);
  for (const Status& outcome : job.finish()) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
}

// Those who come and stay: silent, in the middle of a Hello, byte by byte, or without ever proving
// anything. Each is given a short time; the crowd does not keep an honest rank out.
TEST(Attacked, SlowStrangersAreSentAwayAndCrowdsKeepNobodyOut) {
  log::set_level(log::Level::error);
  RailJob job({.ranks = kRanks});
  job.start(kVictim);
  const std::string hello = text_of(encoded(honest_hello()));
  std::vector<Stranger> crowd;
  for (int i = 0; i < 240; ++i) {
    Stranger& stranger = crowd.emplace_back(job.port_of(kVictim));
    stranger.say(hello.substr(0, i % 4 == 3 ? 64 : static_cast<size_t>(i) % 64));
  }
  Stranger& dribbler = crowd.emplace_back(job.port_of(kVictim));
  std::thread dribble([&] {
    for (const char byte : hello.substr(0, 40)) {
      dribbler.say(std::string(1, byte));
      usleep(100'000);
    }
  });
  for (const Status& outcome : job.finish()) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
  for (Stranger& stranger : crowd) EXPECT_LE(stranger.hear_all().size(), kMessageBytes);
  dribble.join();
}

TEST(Attacked, ASlowStrangerIsSentAwayBeforeTheJobForms) {
  log::set_level(log::Level::error);
  RailJob job({.ranks = kRanks});
  job.start(kVictim);
  Stranger silent(job.port_of(kVictim));
  Stranger halfway(job.port_of(kVictim));
  halfway.say(text_of(encoded(honest_hello())).substr(0, 63));
  Stranger unproven(job.port_of(kVictim));
  unproven.say(encoded(honest_hello()));
  // Only the acceptor's own deadline ends these: nobody else does anything meanwhile.
  EXPECT_EQ(silent.hear_all().size(), 0u);
  EXPECT_EQ(halfway.hear_all().size(), 0u);
  EXPECT_EQ(unproven.hear_all().size(), kMessageBytes);
  for (const Status& outcome : job.finish()) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
}

}  // namespace
}  // namespace nezha::testing
