#include "wire/handshake.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "wire/little_endian.h"

namespace nezha::wire {
namespace {

using HelloBytes = std::array<std::byte, kHelloBytes>;
using ChallengeBytes = std::array<std::byte, kChallengeBytes>;
using ProofBytes = std::array<std::byte, kProofBytes>;

Nonce nonce_of(uint8_t first) {
  Nonce nonce;
  for (size_t i = 0; i < nonce.size(); ++i) nonce[i] = static_cast<std::byte>(first + i);
  return nonce;
}

Hello example() {
  Hello hello;
  hello.job = 0x1122334455667788;
  hello.world_size = 8;
  hello.dialer_rank = 2;
  hello.acceptor_rank = 5;
  hello.dialer_rail = 1;
  hello.acceptor_rail = 3;
  hello.lane = 4;
  hello.epoch = 6;
  hello.nonce = nonce_of(0x10);
  return hello;
}

Expected expected() {
  static constexpr std::array<uint16_t, 8> kRails = {2, 2, 2, 2, 2, 4, 2, 0};
  return {.job = example().job, .world_size = 8, .my_rank = 5, .rail_counts = kRails, .lanes = 5};
}

HelloBytes encoded(const Hello& hello) {
  HelloBytes bytes;
  bytes.fill(std::byte{0xEE});
  encode(hello, bytes);
  return bytes;
}

class Handshake : public ::testing::Test {
 protected:
  const Secret secret_ = secret_from_text("a secret");
  const Secret other_secret_ = secret_from_text("another secret");
  const Hello hello_ = example();
  const Nonce acceptor_nonce_ = nonce_of(0x80);

  ChallengeBytes challenge(const Secret& secret) const {
    ChallengeBytes bytes;
    bytes.fill(std::byte{0xEE});
    make_challenge(secret, hello_, acceptor_nonce_, bytes);
    return bytes;
  }
  ProofBytes proof(const Secret& secret) const {
    ProofBytes bytes;
    bytes.fill(std::byte{0xEE});
    make_proof(secret, hello_, acceptor_nonce_, bytes);
    return bytes;
  }
};

TEST_F(Handshake, BothSidesAcceptTheSameSecret) {
  Hello received;
  ASSERT_EQ(decode(encoded(hello_), &received), Refusal::none);
  ASSERT_EQ(check_hello(received, expected()), Refusal::none);
  Nonce nonce{};
  ASSERT_EQ(verify_challenge(secret_, hello_, challenge(secret_), &nonce), Refusal::none);
  EXPECT_EQ(nonce, acceptor_nonce_);
  EXPECT_EQ(verify_proof(secret_, received, acceptor_nonce_, proof(secret_)), Refusal::none);
}

TEST_F(Handshake, HelloKeepsEveryField) {
  Hello received;
  ASSERT_EQ(decode(encoded(hello_), &received), Refusal::none);
  EXPECT_EQ(encoded(received), encoded(hello_));
  EXPECT_EQ(received.job, hello_.job);
  EXPECT_EQ(received.world_size, hello_.world_size);
  EXPECT_EQ(received.dialer_rank, hello_.dialer_rank);
  EXPECT_EQ(received.acceptor_rank, hello_.acceptor_rank);
  EXPECT_EQ(received.dialer_rail, hello_.dialer_rail);
  EXPECT_EQ(received.acceptor_rail, hello_.acceptor_rail);
  EXPECT_EQ(received.lane, hello_.lane);
  EXPECT_EQ(received.epoch, hello_.epoch);
  EXPECT_EQ(received.nonce, hello_.nonce);
}

// Computed with another HMAC from the description in docs/wire_format.md.
TEST_F(Handshake, MacsAreTheDocumentedOnes) {
  const auto hex_at = [](const auto& message, size_t offset) {
    std::string hex;
    for (size_t i = offset; i < offset + kMacBytes; ++i) {
      hex += "0123456789abcdef"[std::to_integer<int>(message[i] >> 4)];
      hex += "0123456789abcdef"[std::to_integer<int>(message[i] & std::byte{15})];
    }
    return hex;
  };
  EXPECT_EQ(hex_at(challenge(secret_), 20),
            "cf14353976e537ae3a5182fa5f88274601edf99433802a569e2800373f14c53c");
  EXPECT_EQ(hex_at(proof(secret_), 4),
            "b696ab79bfc2743649e283e6790147227b3920df5379e30675c03f2d9d8839b1");
}

TEST_F(Handshake, AnotherSecretIsRefusedByBothSides) {
  Nonce nonce{};
  EXPECT_EQ(verify_challenge(secret_, hello_, challenge(other_secret_), &nonce),
            Refusal::bad_mac);
  EXPECT_EQ(nonce, Nonce{}) << "a refused challenge gave its nonce";
  EXPECT_EQ(verify_proof(secret_, hello_, acceptor_nonce_, proof(other_secret_)),
            Refusal::bad_mac);
}

TEST_F(Handshake, EveryChangedBitOfAChallengeOrProofIsRefused) {
  for (size_t bit = 0; bit < 8 * kChallengeBytes; ++bit) {
    ChallengeBytes changed_challenge = challenge(secret_);
    changed_challenge[bit / 8] ^= std::byte{1} << (bit % 8);
    Nonce nonce{};
    EXPECT_NE(verify_challenge(secret_, hello_, changed_challenge, &nonce), Refusal::none) << bit;
    ProofBytes changed_proof = proof(secret_);
    changed_proof[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_NE(verify_proof(secret_, hello_, acceptor_nonce_, changed_proof), Refusal::none) << bit;
  }
}

// Either the acceptor refuses the Hello, or what it answers does not convince the dialer.
TEST_F(Handshake, EveryChangedBitOfAHelloBreaksTheHandshake) {
  for (size_t bit = 0; bit < 8 * kHelloBytes; ++bit) {
    HelloBytes changed = encoded(hello_);
    changed[bit / 8] ^= std::byte{1} << (bit % 8);
    Hello received;
    if (decode(changed, &received) != Refusal::none) continue;
    ChallengeBytes answer;
    make_challenge(secret_, received, acceptor_nonce_, answer);
    Nonce nonce{};
    EXPECT_EQ(verify_challenge(secret_, hello_, answer, &nonce), Refusal::bad_mac) << bit;
    EXPECT_EQ(verify_proof(secret_, received, acceptor_nonce_, proof(secret_)), Refusal::bad_mac)
        << bit;
  }
}

TEST_F(Handshake, AReflectedMacIsNoProof) {
  const ChallengeBytes from_acceptor = challenge(secret_);
  ProofBytes reflected = proof(secret_);
  std::copy_n(from_acceptor.begin() + 20, kMacBytes, reflected.begin() + 4);
  EXPECT_EQ(verify_proof(secret_, hello_, acceptor_nonce_, reflected), Refusal::bad_mac);
}

TEST_F(Handshake, AReplayedMessageMeetsAnotherNonce) {
  EXPECT_EQ(verify_proof(secret_, hello_, nonce_of(0x81), proof(secret_)), Refusal::bad_mac);
  Hello again = hello_;
  again.nonce = nonce_of(0x11);
  Nonce nonce{};
  EXPECT_EQ(verify_challenge(secret_, again, challenge(secret_), &nonce), Refusal::bad_mac);
}

TEST_F(Handshake, EveryRefusalArrivesAsItself) {
  std::set<std::string_view> reasons;
  for (int i = 1; i <= static_cast<int>(kRefusalLast); ++i) {
    ChallengeBytes bytes;
    bytes.fill(std::byte{0xEE});
    make_refusal(static_cast<Refusal>(i), bytes);
    Nonce nonce{};
    EXPECT_EQ(verify_challenge(secret_, hello_, bytes, &nonce), static_cast<Refusal>(i));
    reasons.insert(reason_of(static_cast<Refusal>(i)));
  }
  EXPECT_EQ(reasons.size(), static_cast<size_t>(kRefusalLast));
}

TEST_F(Handshake, ARefusalWithoutAKnownReasonIsStillARefusal) {
  for (const int reason : {0, static_cast<int>(kRefusalLast) + 1, 255}) {
    ChallengeBytes bytes;
    make_refusal(static_cast<Refusal>(reason), bytes);
    Nonce nonce{};
    EXPECT_EQ(verify_challenge(secret_, hello_, bytes, &nonce), Refusal::malformed) << reason;
  }
}

TEST_F(Handshake, OneMessageIsNeverTakenForAnother) {
  Nonce nonce{};
  Hello received;
  EXPECT_EQ(decode(challenge(secret_), &received), Refusal::bad_magic);
  EXPECT_EQ(verify_challenge(secret_, hello_, encoded(hello_), &nonce), Refusal::bad_magic);
  EXPECT_EQ(verify_challenge(secret_, hello_, proof(secret_), &nonce), Refusal::bad_magic);
  EXPECT_EQ(verify_proof(secret_, hello_, acceptor_nonce_, challenge(secret_)),
            Refusal::bad_magic);
}

TEST_F(Handshake, AnotherVersionIsNamedBeforeItsFieldsAreRead) {
  HelloBytes bytes = encoded(hello_);
  store_le<uint16_t>(bytes.data() + 4, kProtocolVersion + 1);
  bytes[60] = std::byte{1};
  Hello received;
  EXPECT_EQ(decode(bytes, &received), Refusal::bad_version);
  store_le<uint16_t>(bytes.data() + 4, kProtocolVersion);
  EXPECT_EQ(decode(bytes, &received), Refusal::malformed);
}

TEST(CheckHello, NamesWhatIsWrong) {
  const auto after = [](auto change) {
    Hello hello = example();
    change(hello);
    return check_hello(hello, expected());
  };
  EXPECT_EQ(after([](Hello& h) { h.job ^= 1; }), Refusal::wrong_job);
  EXPECT_EQ(after([](Hello& h) { h.world_size = 9; }), Refusal::wrong_world_size);
  EXPECT_EQ(after([](Hello& h) { h.dialer_rank = 8; }), Refusal::rank_out_of_range);
  EXPECT_EQ(after([](Hello& h) { h.acceptor_rank = UINT32_MAX; }), Refusal::rank_out_of_range);
  EXPECT_EQ(after([](Hello& h) { h.acceptor_rank = 4; }), Refusal::not_my_rank);
  EXPECT_EQ(after([](Hello& h) { h.dialer_rank = 5; }), Refusal::not_my_rank);
  EXPECT_EQ(after([](Hello& h) { h.acceptor_rail = 4; }), Refusal::rail_out_of_range);
  EXPECT_EQ(after([](Hello& h) { h.dialer_rail = 2; }), Refusal::rail_out_of_range);
  EXPECT_EQ(after([](Hello& h) { h.dialer_rail = UINT16_MAX; }), Refusal::rail_out_of_range);
  EXPECT_EQ(after([](Hello& h) { h.dialer_rank = 7, h.dialer_rail = 0; }), Refusal::rail_out_of_range);
  EXPECT_EQ(after([](Hello& h) { h.lane = 5; }), Refusal::lane_out_of_range);
  EXPECT_EQ(after([](Hello& h) { h.lane = UINT16_MAX; }), Refusal::lane_out_of_range);
  EXPECT_EQ(after([](Hello& h) { h.dialer_rail = 0, h.lane = 0; }), Refusal::none);
}

TEST(Secrets, TextsDecideAndTheWhiteSpaceAroundThemDoesNot) {
  for (const char* text : {"one\n", "one\r\n", "one ", "\n\tone", " \vone\f "}) {
    EXPECT_EQ(secret_from_text("one"), secret_from_text(text));
  }
  EXPECT_NE(secret_from_text("one two"), secret_from_text("onetwo"));
  EXPECT_NE(secret_from_text("one two"), secret_from_text("one  two"));
  // SHA-256 of "abc", FIPS 180-4.
  EXPECT_EQ(load_le<uint32_t>(secret_from_text("abc").data()), 0xBF1678BAu);
}

// What is derived from one secret is different for each purpose and each thing said.
TEST(Secrets, WhatIsDerivedOpensNothingElse) {
  const Secret secret = secret_from_text("a secret");
  const std::vector<Secret> derived = {secret,
                                       store_key_of(secret),
                                       mark_of(secret, ""),
                                       record_mac_of(secret, ""),
                                       record_mac_of(secret, "a"),
                                       session_secret_of(secret, ""),
                                       session_secret_of(secret, "a"),
                                       session_secret_of(secret_from_text("another"), "a"),
                                       tls_key_of(secret)};
  for (size_t i = 0; i < derived.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(derived[i], derived[j]) << i << " and " << j;
  }
}

TEST(Secrets, RandomOnesDiffer) {
  const Result<Nonce> one = random_nonce();
  const Result<Nonce> two = random_nonce();
  ASSERT_TRUE(one.is_ok() && two.is_ok());
  EXPECT_NE(one.value(), two.value());
  const Result<Secret> secret = random_secret();
  ASSERT_TRUE(secret.is_ok());
  EXPECT_NE(secret.value(), Secret{});
}

}  // namespace
}  // namespace nezha::wire
