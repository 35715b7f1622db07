// The handshake: three messages by which two ranks prove to each other that they hold the job's
// secret, before any byte of the connection is believed.
//
//   dialer  -> acceptor   Hello      who I am, whom I expect, which rails, my nonce
//   acceptor -> dialer    Challenge  my nonce, HMAC(secret, "acceptor" | Hello | my nonce)
//   dialer  -> acceptor   Proof      HMAC(secret, "dialer" | Hello | acceptor's nonce)
//
// Contract: pure functions over fixed-size messages; any thread. HMAC-SHA256 (RFC 2104, FIPS 180-4)
// over a transcript that names the role, so that a reflected or replayed message never verifies.
// Hello contains the dialer's nonce, so both MACs cover both. Comparison is constant-time. A
// refusal is a fixed-size message with a reason (`Refusal`) in place of a challenge; it proves
// nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/hmac.h"
#include "base/secret.h"
#include "base/status.h"

namespace nezha::wire {

inline constexpr size_t kNonceBytes = 16;
using nezha::kMacBytes;
inline constexpr uint16_t kProtocolVersion = 4;

using Nonce = std::array<std::byte, kNonceBytes>;
using nezha::kSecretBytes;
using nezha::Mac;
using nezha::Secret;

struct Hello {
  uint16_t version = kProtocolVersion;
  uint64_t job = 0;         // identifies the job; a scan or another job's rank does not know it
  uint32_t world_size = 0;
  uint32_t dialer_rank = 0;
  uint32_t acceptor_rank = 0;
  uint16_t dialer_rail = 0;    // index in the dialer's published list of rails
  uint16_t acceptor_rail = 0;  // index in the acceptor's
  uint16_t lane = 0;           // which of several streams on this rail
  uint32_t epoch = 0;          // grows with every reconnection of (pair, rail, lane), or kRequestEpoch
  Nonce nonce{};
};

// The epoch of a connection that will carry no frames: a dialer that proves itself with it asks the
// acceptor to dial it.
inline constexpr uint32_t kRequestEpoch = UINT32_MAX;

inline constexpr size_t kHelloBytes = 64;
inline constexpr size_t kChallengeBytes = 64;  // magic, nonce, mac
inline constexpr size_t kProofBytes = 64;      // magic, mac

enum class Refusal : uint8_t {
  none = 0,
  bad_magic,
  bad_version,
  wrong_job,
  wrong_world_size,
  rank_out_of_range,
  not_my_rank,
  rail_out_of_range,
  bad_mac,
  malformed,
  needs_tls,
  no_room,     // said by aggregation nodes only, as the next two
  wrong_tree,
  replayed,
  lane_out_of_range,
};
inline constexpr Refusal kRefusalLast = Refusal::lane_out_of_range;
std::string_view reason_of(Refusal refusal);
// True when these bytes begin a message of this protocol, of any version.
bool is_ours(std::span<const std::byte> beginning);

// Nonces and secrets come from the operating system's generator; `exhausted` when it fails.
Result<Nonce> random_nonce();
Result<Secret> random_secret();
// A secret of any length from a file or an environment variable, brought to 32 bytes (SHA-256).
// White space around it does not count, so that a file and a variable with one text agree. This
// does not check whether the text is good enough; key_file.h does.
Secret secret_from_text(std::string_view text);
// Returns `text` without the white space around it.
std::string_view trimmed_secret(std::string_view text);

// HMAC(secret, "store" | words): what a rank writes into a store beside the words, so that another can
// tell before it joins whether both hold one secret. The mark has no other use.
Mac mark_of(const Secret& secret, std::string_view words);
// HMAC(secret, "record" | record): proves that the writer of a record holds the secret, and that
// nobody changed it. `record` includes the job's name and the key for which it was written.
Mac record_mac_of(const Secret& secret, std::string_view record);
// HMAC(secret, "session" | what all ranks have agreed on): the secret of one run's connections.
// Ranks that were told different addresses or nonces have different ones: their handshakes fail.
Secret session_secret_of(const Secret& secret, std::string_view agreed);
// HMAC(secret, "store key"): the key that a rank proves to a TCP store, which never has the secret.
Secret store_key_of(const Secret& secret);
// HMAC(secret, "channel" | transcript): a proof or a key for something beside the messages of a
// handshake, such as the shared memory of a host. The transcript begins with its use, so that it
// serves no other.
Mac channel_mac_of(const Secret& secret, std::string_view transcript);
// The beginning of a transcript for channel_mac_of: the purpose, the Hello (in which is the
// dialer's nonce) and the acceptor's nonce.
std::string transcript_of(std::string_view purpose, const Hello& hello, const Nonce& acceptor_nonce);
// HMAC(secret, "channel" | "integrity" | Hello | acceptor's nonce): the two keys with which the bytes of
// a connection are authenticated after its handshake.
Secret integrity_keys_of(const Secret& secret, const Hello& hello, const Nonce& acceptor_nonce);
// HMAC(secret, "tls"): the pre-shared key of encrypted rails.
Secret tls_key_of(const Secret& secret);

void encode(const Hello& hello, std::span<std::byte, kHelloBytes> out);
// Checks magic, version and padding; the acceptor checks the rest with `check_hello`. `out` is
// written only when the answer is `none`.
Refusal decode(std::span<const std::byte, kHelloBytes> in, Hello* out);

struct Expected {
  uint64_t job = 0;
  uint32_t world_size = 0;
  uint32_t my_rank = 0;
  std::span<const uint16_t> rail_counts;  // by rank
  uint16_t lanes = 1;                     // of every rail
};
// Every index that the layers above use is in its range when the answer is `none`.
Refusal check_hello(const Hello& hello, const Expected& expected);

void make_challenge(const Secret& secret, const Hello& hello, const Nonce& acceptor_nonce,
                    std::span<std::byte, kChallengeBytes> out);
// The acceptor may answer with a refusal in place of a challenge.
void make_refusal(Refusal refusal, std::span<std::byte, kChallengeBytes> out);
// The dialer's check; on success `acceptor_nonce` is set.
Refusal verify_challenge(const Secret& secret, const Hello& hello,
                         std::span<const std::byte, kChallengeBytes> in, Nonce* acceptor_nonce);

void make_proof(const Secret& secret, const Hello& hello, const Nonce& acceptor_nonce,
                std::span<std::byte, kProofBytes> out);
Refusal verify_proof(const Secret& secret, const Hello& hello, const Nonce& acceptor_nonce,
                     std::span<const std::byte, kProofBytes> in);

}  // namespace nezha::wire
