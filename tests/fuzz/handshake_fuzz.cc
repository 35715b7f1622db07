// The handshake against a stranger without the secret: any bytes, and any change to the messages of
// one valid handshake. Nothing but the original messages may ever verify.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "fuzz/fuzz.h"
#include "wire/handshake.h"
#include "wire/little_endian.h"

namespace nezha::wire {
namespace {

constexpr size_t kMessageBytes = 64;
static_assert(kHelloBytes == kMessageBytes && kChallengeBytes == kMessageBytes &&
              kProofBytes == kMessageBytes);
using Message = std::array<std::byte, kMessageBytes>;

// One valid handshake: what a listener on the network has seen.
struct Transcript {
  Secret secret = secret_from_text("fuzz");
  Hello hello;
  Nonce acceptor_nonce{};
  Message hello_message;
  Message challenge;
  Message proof;

  Transcript() {
    hello.job = 0x0123456789ABCDEF;
    hello.world_size = 4;
    hello.acceptor_rank = 1;
    hello.nonce.fill(std::byte{0x5A});
    acceptor_nonce.fill(std::byte{0xC3});
    encode(hello, hello_message);
    make_challenge(secret, hello, acceptor_nonce, challenge);
    make_proof(secret, hello, acceptor_nonce, proof);
  }
  const Message& message(size_t index) const {
    return index == 0 ? hello_message : (index == 1 ? challenge : proof);
  }
};

const Transcript& transcript() {
  static const Transcript kTranscript;
  return kTranscript;
}

void check_hello_message(const Message& message) {
  const Transcript& valid = transcript();
  Hello hello;
  const Refusal refusal = decode(message, &hello);
  NEZHA_CHECK(!reason_of(refusal).empty());
  if (refusal != Refusal::none) return;
  Message again;
  encode(hello, again);
  NEZHA_CHECK(again == message);
  static constexpr std::array<uint16_t, 4> kRails = {3, 1, 0, 2};
  const Expected expected = {
      .job = valid.hello.job, .world_size = 4, .my_rank = 1, .rail_counts = kRails, .lanes = 2};
  if (check_hello(hello, expected) == Refusal::none) {
    NEZHA_CHECK(hello.job == valid.hello.job && hello.dialer_rank < 4 &&
                hello.acceptor_rank == 1 && hello.acceptor_rail == 0 &&
                hello.dialer_rail < kRails[hello.dialer_rank] && hello.lane < 2);
  }
  // The answer to a changed Hello convinces nobody, and the old proof does not fit it.
  const bool original = message == valid.hello_message;
  Message answer;
  make_challenge(valid.secret, hello, valid.acceptor_nonce, answer);
  Nonce nonce;
  NEZHA_CHECK((verify_challenge(valid.secret, valid.hello, answer, &nonce) == Refusal::none) ==
              original);
  NEZHA_CHECK((verify_proof(valid.secret, hello, valid.acceptor_nonce, valid.proof) ==
               Refusal::none) == original);
}

void check_challenge_message(const Message& message) {
  const Transcript& valid = transcript();
  Nonce nonce{};
  const Refusal refusal = verify_challenge(valid.secret, valid.hello, message, &nonce);
  NEZHA_CHECK((refusal == Refusal::none) == (message == valid.challenge));
  NEZHA_CHECK(nonce == (refusal == Refusal::none ? valid.acceptor_nonce : Nonce{}));
  NEZHA_CHECK(refusal <= kRefusalLast);
}

void check_proof_message(const Message& message) {
  const Transcript& valid = transcript();
  const Refusal refusal =
      verify_proof(valid.secret, valid.hello, valid.acceptor_nonce, message);
  NEZHA_CHECK((refusal == Refusal::none) == (message == valid.proof));
}

void check_all(const Message& message) {
  check_hello_message(message);
  check_challenge_message(message);
  check_proof_message(message);
}

// Edits of four bytes each: where, from which message, from where, how long; or a single xor.
Message edited(Message message, const uint8_t* edits, size_t size) {
  for (; size >= 4; edits += 4, size -= 4) {
    const size_t to = edits[0] % kMessageBytes;
    if (edits[1] < 128) {
      message[to] ^= static_cast<std::byte>(edits[2]);
      continue;
    }
    const Message& source = transcript().message(edits[1] % 3);
    const size_t from = edits[2] % kMessageBytes;
    const size_t length = std::min({size_t{1} + edits[3] % kMessageBytes, kMessageBytes - to,
                                    kMessageBytes - from});
    std::memcpy(message.data() + to, source.data() + from, length);
  }
  return message;
}

}  // namespace
}  // namespace nezha::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nezha::wire;
  const uint8_t choice = size > 0 ? data[0] : 0;
  const uint8_t* rest = size > 0 ? data + 1 : data;
  const size_t left = size > 0 ? size - 1 : 0;
  if (choice % 4 == 3) {
    Message raw{};
    if (left > 0) std::memcpy(raw.data(), rest, std::min(left, raw.size()));
    check_all(raw);
    // The same bytes with the magic of a real message, to get past the first look.
    std::memcpy(raw.data(), transcript().message(choice / 4 % 3).data(), sizeof(uint32_t));
    check_all(raw);
  } else {
    check_all(edited(transcript().message(choice % 4), rest, left));
  }
  return 0;
}
