// The TCP store's language: a magic each way, then one request and one answer at a time.
//
//   magic    8 bytes "NZSTORE" and the version; the server answers with its own
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

namespace nezha::rendezvous {

inline constexpr size_t kMagicBytes = 8;
inline constexpr std::string_view kMagic{"NZSTORE\x01", kMagicBytes};
inline constexpr size_t kRequestHeadBytes = 8;
inline constexpr size_t kAnswerHeadBytes = 8;

enum class Operation : uint8_t { set = 1, get = 2, set_if_absent = 3, remove = 4 };
std::string_view name_of(Operation operation);

struct Request {
  Operation operation = Operation::get;
  std::string key;
  std::string value;
  bool too_much = false;  // the server had no memory for the value, which was dropped
};

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

  bool take(size_t bytes) {
    if (bytes > limit - used) return false;
    used += bytes;
    return true;
  }
  void give_back(size_t bytes) { used -= bytes; }
};

// Makes requests out of one connection's bytes.
class RequestReader {
 public:
  enum class Outcome : uint8_t { more, greeted, request, other_version, refused };

  explicit RequestReader(MemoryBudget& budget) : budget_(budget) {}
  ~RequestReader() { budget_.give_back(held_); }
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  // The most that feed() takes now; never 0.
  size_t wanted() const;
  // `bytes` is not empty and no longer than wanted(). `greeted` once, after the magic; `refused` and
  // `other_version` mean: close the connection, the latter after a greeting that tells ours.
  Outcome feed(std::string_view bytes);
  // After Outcome::request.
  Request take();

  bool greeted() const { return stage_ != Stage::magic; }
  // In the middle of the magic or of a request.
  bool in_progress() const { return stage_ != Stage::head || filled_ != 0; }

 private:
  enum class Stage : uint8_t { magic, head, body };

  Outcome feed_head();
  Outcome feed_body(std::string_view bytes);

  MemoryBudget& budget_;
  Stage stage_ = Stage::magic;
  std::array<char, kRequestHeadBytes> fixed_{};  // the magic, then heads
  size_t filled_ = 0;                            // of `fixed_`
  Operation operation_ = Operation::get;
  size_t key_bytes_ = 0;
  size_t body_bytes_ = 0;
  size_t arrived_ = 0;  // of the body
  std::string body_;
  size_t held_ = 0;  // taken from the budget for `body_`
  bool dropping_ = false;
};

}  // namespace nezha::rendezvous
