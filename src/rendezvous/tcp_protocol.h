// The TCP store's language: a greeting each way, proofs where the job has a secret, then one request and
// one answer at a time.
//
//   magic    8 bytes "NZSTORE" and the version, from the client
//   greeting magic, whether a proof is wanted u8, zero u8 x 7, the server's nonce 16 bytes
//   proof    the client's nonce 16 bytes, its MAC 32 bytes (store_proof.h); only where it is wanted
//   verdict  the server's MAC 32 bytes; zeros: refused, and the connection ends
//   request  operation u8, zero u8, key length u16, value length u32, key, value
//   answer   code u8, zero u8 x 3, value length u32, value
//
// All integers little-endian. Contract: pure; a RequestReader belongs to one thread and may be fed
// by strangers: it buffers at most one request, and only bytes that have really arrived.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "rendezvous/store.h"
#include "rendezvous/store_proof.h"

namespace nezha::rendezvous {

inline constexpr size_t kMagicBytes = 8;
inline constexpr std::string_view kMagic{"NZSTORE\x02", kMagicBytes};
inline constexpr size_t kGreetingBytes = kMagicBytes + 8 + kStoreNonceBytes;
inline constexpr size_t kProofBytes = kStoreNonceBytes + kStoreMacBytes;
inline constexpr size_t kVerdictBytes = kStoreMacBytes;
inline constexpr size_t kRequestHeadBytes = 8;
inline constexpr size_t kAnswerHeadBytes = 8;

enum class Operation : uint8_t { set = 1, get = 2, set_if_absent = 3, remove = 4 };
std::string_view name_of(Operation operation);

struct Request {
  Operation operation = Operation::get;
  std::string key;
  WipedText value;
  bool too_much = false;  // the server had no memory for the value, which was dropped
};

// The server's first words. `nonce` as fresh_store_nonce() makes it.
struct Greeting {
  bool wants_proof = false;
  std::string nonce;
};
std::string encode(const Greeting& greeting);
// The magic has been compared. `internal` when the rest makes no sense.
Result<Greeting> decode_greeting(std::string_view bytes);

std::array<char, kRequestHeadBytes> encode_request_head(Operation operation, size_t key_bytes,
                                                        size_t value_bytes);
std::array<char, kAnswerHeadBytes> encode_answer_head(Code code, size_t value_bytes);

struct AnswerHead {
  Code code = Code::internal;
  size_t value_bytes = 0;
};
// `internal` when it is no answer of this protocol.
Result<AnswerHead> decode_answer_head(const std::array<char, kAnswerHeadBytes>& bytes);

// Bytes held for clients, all together.
struct MemoryBudget {
  size_t limit = 0;
  size_t used = 0;

  bool charge(size_t bytes) {
    if (bytes > limit - used) return false;
    used += bytes;
    return true;
  }
  void give_back(size_t bytes) { used -= bytes; }
};

// Makes requests out of one connection's bytes.
class RequestReader {
 public:
  enum class Outcome : uint8_t { more, greeted, proof, request, other_version, refused };

  // `wants_proof`: behind the magic comes a proof, which the caller checks.
  explicit RequestReader(MemoryBudget& budget, bool wants_proof = false)
      : budget_(budget), wants_proof_(wants_proof) {}
  ~RequestReader() { budget_.give_back(held_); }
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  // The most that feed() takes now; never 0.
  size_t wanted() const;
  // `bytes` is not empty and no longer than wanted(). `greeted` once, after the magic; `refused` and
  // `other_version` mean: close the connection, the latter after a greeting that tells ours.
  Outcome feed(std::string_view bytes);
  // After Outcome::proof: its kProofBytes. Whoever reads on believes it.
  std::string_view proof() const { return {fixed_.data(), kProofBytes}; }
  // After Outcome::request.
  Request take_request();

  bool greeted() const { return stage_ != Stage::magic; }

 private:
  enum class Stage : uint8_t { magic, proof, head, body };

  size_t fixed_bytes() const { return stage_ == Stage::proof ? kProofBytes : kRequestHeadBytes; }
  Outcome feed_magic();
  Outcome feed_head();
  Outcome feed_body(std::string_view bytes);

  MemoryBudget& budget_;
  const bool wants_proof_;
  Stage stage_ = Stage::magic;
  std::array<char, kProofBytes> fixed_{};        // the magic, the proof, then heads
  size_t filled_ = 0;                            // of `fixed_`
  Operation operation_ = Operation::get;
  size_t key_bytes_ = 0;
  size_t body_bytes_ = 0;
  size_t arrived_ = 0;  // of the body
  WipedText body_;
  size_t held_ = 0;  // taken from the budget for `body_`
  bool dropping_ = false;
};

}  // namespace nezha::rendezvous
