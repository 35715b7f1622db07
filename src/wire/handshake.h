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

// Of a connection that is to carry nothing: who proves itself asks to be dialled.
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
  no_room,     // of aggregation nodes, as the next
  wrong_tree,
  replayed,
  lane_out_of_range,
};
inline constexpr Refusal kRefusalLast = Refusal::lane_out_of_range;
std::string_view reason_of(Refusal refusal);
// These bytes begin a message of this protocol, of any version.
bool is_ours(std::span<const std::byte> beginning);

// Nonces and secrets come from the operating system's generator; `exhausted` when it fails.
Result<Nonce> random_nonce();
Result<Secret> random_secret();
// A secret of any length from a file or an environment variable, brought to 32 bytes (SHA-256). White
// space around it does not count, so that a file and a variable with one text agree. Whether it is good
// enough to be one: key_file.h.
Secret secret_from_text(std::string_view text);
// What is left of it without that.
std::string_view trimmed_secret(std::string_view text);

// HMAC(secret, "store" | words): what a rank writes into a store beside the words, so that another can
// tell before it joins whether both hold one secret. It is good for nothing else.
Mac mark_of(const Secret& secret, std::string_view words);
// HMAC(secret, "record" | record): who wrote a record holds the secret, and nobody changed it. The record
// says what it is, and whose.
Mac record_mac_of(const Secret& secret, std::string_view record);
// HMAC(secret, "session" | what all ranks have agreed on): the secret of one run's connections. Ranks
// that know other addresses or nonces of each other have another, so their handshakes fail.
Secret session_secret_of(const Secret& secret, std::string_view agreed);
// HMAC(secret, "store key"): what a rank proves to a TCP store, which never has the secret.
Secret store_key_of(const Secret& secret);
// HMAC(secret, "channel" | transcript): proves and keys what a handshake is bound to beside its own
// messages. The transcript contains both nonces, and which of its uses it is for.
Mac channel_mac_of(const Secret& secret, std::string_view transcript);
// The beginning of such a transcript: the purpose, the Hello (in which is the dialer's nonce) and the
// acceptor's nonce.
std::string transcript_of(std::string_view purpose, const Hello& hello, const Nonce& acceptor_nonce);
// HMAC(secret, "channel" | "integrity" | Hello | acceptor's nonce): the two keys with which the bytes of
// a connection are authenticated behind its handshake.
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
