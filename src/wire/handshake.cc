#include "wire/handshake.h"

#include <openssl/sha.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/crypto_use.h"
#include "base/hidden_text.h"
#include "base/random.h"
#include "wire/little_endian.h"

namespace nezha::wire {
namespace {

// One magic per message, so that no message is ever read as another.
constexpr uint32_t kHelloMagic = 0x485A4E7F;      // 0x7F 'N' 'Z' 'H'
constexpr uint32_t kChallengeMagic = 0x435A4E7F;  // 0x7F 'N' 'Z' 'C'
constexpr uint32_t kProofMagic = 0x505A4E7F;      // 0x7F 'N' 'Z' 'P'
constexpr uint32_t kRefusalMagic = 0x525A4E7F;    // 0x7F 'N' 'Z' 'R'

// Byte offsets in Hello; the rest of its 64 bytes is zero.
constexpr size_t kAtMagic = 0;
constexpr size_t kAtVersion = 4;
constexpr size_t kAtDialerRail = 6;
constexpr size_t kAtJob = 8;
constexpr size_t kAtWorldSize = 16;
constexpr size_t kAtDialerRank = 20;
constexpr size_t kAtAcceptorRank = 24;
constexpr size_t kAtAcceptorRail = 28;
constexpr size_t kAtLane = 30;
constexpr size_t kAtEpoch = 32;
constexpr size_t kAtNonce = 36;
constexpr size_t kHelloEnd = kAtNonce + kNonceBytes;

// Byte offsets in the other messages.
constexpr size_t kAtChallengeNonce = 4;
constexpr size_t kAtChallengeMac = kAtChallengeNonce + kNonceBytes;
constexpr size_t kChallengeEnd = kAtChallengeMac + kMacBytes;
constexpr size_t kAtRefusalReason = 4;
constexpr size_t kRefusalEnd = kAtRefusalReason + 1;
constexpr size_t kAtProofMac = 4;
constexpr size_t kProofEnd = kAtProofMac + kMacBytes;

constexpr size_t kRoleBytes = 16;
using Role = std::array<char, kRoleBytes>;
constexpr Role kAcceptor = {"nezha1 acceptor"};
constexpr Role kDialer = {"nezha1 dialer"};
constexpr Role kStore = {"nezha1 store"};
constexpr Role kTls = {"nezha1 tls"};
constexpr Role kRecord = {"nezha1 record"};
constexpr Role kSession = {"nezha1 session"};
constexpr Role kStoreKey = {"nezha1 storekey"};

Mac mac_of(const Secret& secret, const Role& role, std::string_view words) {
  WipedText text(role.data(), role.size());
  text += words;
  return hmac_sha256(secret, std::as_bytes(std::span(text)));
}

// HMAC-SHA256(secret, role | Hello | acceptor's nonce); Hello holds the dialer's nonce.
Mac transcript_mac(const Secret& secret, const Role& role, const Hello& hello,
                   const Nonce& acceptor_nonce) {
  std::array<std::byte, kRoleBytes + kHelloBytes + kNonceBytes> transcript;
  std::memcpy(transcript.data(), role.data(), kRoleBytes);
  encode(hello, std::span(transcript).subspan<kRoleBytes, kHelloBytes>());
  std::memcpy(transcript.data() + kRoleBytes + kHelloBytes, acceptor_nonce.data(), kNonceBytes);
  return hmac_sha256(secret, transcript);
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

std::string_view reason_of(Refusal refusal) {
  switch (refusal) {
    case Refusal::none: return "accepted";
    case Refusal::bad_magic: return "this is not a nezha handshake";
    case Refusal::bad_version: return "the two sides run different versions of nezha's protocol";
    case Refusal::wrong_job: return "the connection belongs to another job";
    case Refusal::wrong_world_size: return "the two sides disagree about the number of ranks";
    case Refusal::rank_out_of_range: return "a rank is not below the number of ranks";
    case Refusal::not_my_rank: return "the connection was meant for another rank";
    case Refusal::rail_out_of_range: return "one of the two ranks has no rail of that index";
    case Refusal::bad_mac: return "the two sides hold different secrets";
    case Refusal::malformed: return "bytes that must be zero are not";
    case Refusal::needs_tls: return "one side has tls=on, the other tls=off; set it equal on all ranks";
    case Refusal::no_room: return "the aggregation node serves as much as its quotas allow";
    case Refusal::lane_out_of_range: return "a rail has fewer streams";
    case Refusal::wrong_tree: return "the aggregation node knows a tree of another number of nodes";
    case Refusal::replayed: return "the aggregation node has seen this ticket before";
  }
  return "unknown reason";
}

Result<Nonce> random_nonce() {
  Nonce nonce;
  NEZHA_RETURN_IF_ERROR(fill_with_random(nonce, "a nonce"));
  return nonce;
}

Result<Secret> random_secret() {
  Secret secret;
  NEZHA_RETURN_IF_ERROR(fill_with_random(secret, "a secret"));
  return secret;
}

std::string_view trimmed_secret(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

Secret secret_from_text(std::string_view text) {
  text = trimmed_secret(text);
  const CryptoUse use;
  Secret secret;
  const unsigned char* result =
      SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
             reinterpret_cast<unsigned char*>(secret.data()));
  NEZHA_CHECK(result != nullptr);
  return secret;
}

Mac mark_of(const Secret& secret, std::string_view words) { return mac_of(secret, kStore, words); }

Mac record_mac_of(const Secret& secret, std::string_view record) {
  return mac_of(secret, kRecord, record);
}

Secret session_secret_of(const Secret& secret, std::string_view agreed) {
  return mac_of(secret, kSession, agreed);
}

Secret store_key_of(const Secret& secret) { return mac_of(secret, kStoreKey, {}); }

Mac channel_mac_of(const Secret& secret, std::string_view transcript) {
  const std::string text = "channel" + std::string(transcript);
  return hmac_sha256(secret, std::as_bytes(std::span(text)));
}

std::string transcript_of(std::string_view purpose, const Hello& hello, const Nonce& acceptor_nonce) {
  std::array<std::byte, kHelloBytes> bytes;
  encode(hello, bytes);
  std::string text(purpose);
  text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  text.append(reinterpret_cast<const char*>(acceptor_nonce.data()), acceptor_nonce.size());
  return text;
}

Secret integrity_keys_of(const Secret& secret, const Hello& hello, const Nonce& acceptor_nonce) {
  return channel_mac_of(secret, transcript_of("integrity", hello, acceptor_nonce));
}

Secret tls_key_of(const Secret& secret) { return mac_of(secret, kTls, {}); }

bool is_ours(std::span<const std::byte> beginning) {
  // All magics begin with these bytes.
  constexpr std::array<std::byte, 3> kCommon = {std::byte{0x7F}, std::byte{'N'}, std::byte{'Z'}};
  return beginning.size() >= kCommon.size() &&
         std::equal(kCommon.begin(), kCommon.end(), beginning.begin());
}

void encode(const Hello& hello, std::span<std::byte, kHelloBytes> out) {
  std::byte* const at = out.data();
  store_le(at + kAtMagic, kHelloMagic);
  store_le(at + kAtVersion, hello.version);
  store_le(at + kAtDialerRail, hello.dialer_rail);
  store_le(at + kAtJob, hello.job);
  store_le(at + kAtWorldSize, hello.world_size);
  store_le(at + kAtDialerRank, hello.dialer_rank);
  store_le(at + kAtAcceptorRank, hello.acceptor_rank);
  store_le(at + kAtAcceptorRail, hello.acceptor_rail);
  store_le(at + kAtLane, hello.lane);
  store_le(at + kAtEpoch, hello.epoch);
  std::memcpy(at + kAtNonce, hello.nonce.data(), kNonceBytes);
  std::memset(at + kHelloEnd, 0, kHelloBytes - kHelloEnd);
}

Refusal decode(std::span<const std::byte, kHelloBytes> in, Hello* out) {
  const std::byte* const at = in.data();
  if (load_le<uint32_t>(at + kAtMagic) != kHelloMagic) return Refusal::bad_magic;
  // The version comes before the zeros, because another version may give those bytes a meaning.
  if (load_le<uint16_t>(at + kAtVersion) != kProtocolVersion) return Refusal::bad_version;
  if (!all_zero(in.subspan<kHelloEnd>())) return Refusal::malformed;
  out->version = kProtocolVersion;
  out->dialer_rail = load_le<uint16_t>(at + kAtDialerRail);
  out->job = load_le<uint64_t>(at + kAtJob);
  out->world_size = load_le<uint32_t>(at + kAtWorldSize);
  out->dialer_rank = load_le<uint32_t>(at + kAtDialerRank);
  out->acceptor_rank = load_le<uint32_t>(at + kAtAcceptorRank);
  out->acceptor_rail = load_le<uint16_t>(at + kAtAcceptorRail);
  out->lane = load_le<uint16_t>(at + kAtLane);
  out->epoch = load_le<uint32_t>(at + kAtEpoch);
  std::memcpy(out->nonce.data(), at + kAtNonce, kNonceBytes);
  return Refusal::none;
}

Refusal check_hello(const Hello& hello, const Expected& expected) {
  if (hello.job != expected.job) return Refusal::wrong_job;
  if (hello.world_size != expected.world_size) return Refusal::wrong_world_size;
  if (hello.dialer_rank >= expected.world_size || hello.acceptor_rank >= expected.world_size) {
    return Refusal::rank_out_of_range;
  }
  if (hello.acceptor_rank != expected.my_rank || hello.dialer_rank == expected.my_rank) {
    return Refusal::not_my_rank;
  }
  const auto has_rail = [&](uint32_t rank, uint16_t rail) {
    return rank < expected.rail_counts.size() && rail < expected.rail_counts[rank];
  };
  if (!has_rail(hello.acceptor_rank, hello.acceptor_rail) ||
      !has_rail(hello.dialer_rank, hello.dialer_rail)) {
    return Refusal::rail_out_of_range;
  }
  if (hello.lane >= expected.lanes) return Refusal::lane_out_of_range;
  return Refusal::none;
}

void make_challenge(const Secret& secret, const Hello& hello, const Nonce& acceptor_nonce,
                    std::span<std::byte, kChallengeBytes> out) {
  const Mac mac = transcript_mac(secret, kAcceptor, hello, acceptor_nonce);
  store_le(out.data(), kChallengeMagic);
  std::memcpy(out.data() + kAtChallengeNonce, acceptor_nonce.data(), kNonceBytes);
  std::memcpy(out.data() + kAtChallengeMac, mac.data(), kMacBytes);
  std::memset(out.data() + kChallengeEnd, 0, kChallengeBytes - kChallengeEnd);
}

void make_refusal(Refusal refusal, std::span<std::byte, kChallengeBytes> out) {
  store_le(out.data(), kRefusalMagic);
  out[kAtRefusalReason] = static_cast<std::byte>(refusal);
  std::memset(out.data() + kRefusalEnd, 0, kChallengeBytes - kRefusalEnd);
}

Refusal verify_challenge(const Secret& secret, const Hello& hello,
                         std::span<const std::byte, kChallengeBytes> in, Nonce* acceptor_nonce) {
  const uint32_t magic = load_le<uint32_t>(in.data());
  if (magic == kRefusalMagic) {
    const uint8_t reason = std::to_integer<uint8_t>(in[kAtRefusalReason]);
    const bool known = reason > static_cast<uint8_t>(Refusal::none) &&
                       reason <= static_cast<uint8_t>(kRefusalLast);
    return known ? static_cast<Refusal>(reason) : Refusal::malformed;
  }
  if (magic != kChallengeMagic) return Refusal::bad_magic;
  if (!all_zero(in.subspan<kChallengeEnd>())) return Refusal::malformed;
  Nonce nonce;
  std::memcpy(nonce.data(), in.data() + kAtChallengeNonce, kNonceBytes);
  const Mac expected = transcript_mac(secret, kAcceptor, hello, nonce);
  if (!same_mac(expected, in.subspan<kAtChallengeMac, kMacBytes>())) return Refusal::bad_mac;
  *acceptor_nonce = nonce;
  return Refusal::none;
}

void make_proof(const Secret& secret, const Hello& hello, const Nonce& acceptor_nonce,
                std::span<std::byte, kProofBytes> out) {
  const Mac mac = transcript_mac(secret, kDialer, hello, acceptor_nonce);
  store_le(out.data(), kProofMagic);
  std::memcpy(out.data() + kAtProofMac, mac.data(), kMacBytes);
  std::memset(out.data() + kProofEnd, 0, kProofBytes - kProofEnd);
}

Refusal verify_proof(const Secret& secret, const Hello& hello, const Nonce& acceptor_nonce,
                     std::span<const std::byte, kProofBytes> in) {
  if (load_le<uint32_t>(in.data()) != kProofMagic) return Refusal::bad_magic;
  if (!all_zero(in.subspan<kProofEnd>())) return Refusal::malformed;
  const Mac expected = transcript_mac(secret, kDialer, hello, acceptor_nonce);
  return same_mac(expected, in.subspan<kAtProofMac, kMacBytes>()) ? Refusal::none : Refusal::bad_mac;
}

}  // namespace nezha::wire
