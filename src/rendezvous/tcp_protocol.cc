#include "rendezvous/tcp_protocol.h"

#include <cstring>

namespace nezha::rendezvous {
namespace {

static_assert(kMagicBytes == kRequestHeadBytes, "fixed_bytes() is the length of either");

uint32_t load(const char* at, size_t bytes) {
  uint32_t number = 0;
  for (size_t i = bytes; i-- > 0;) number = number << 8 | static_cast<unsigned char>(at[i]);
  return number;
}

void store(char* at, size_t bytes, size_t number) {
  for (size_t i = 0; i < bytes; ++i) at[i] = static_cast<char>(number >> (8 * i) & 0xFF);
}

}  // namespace

std::string_view name_of(Operation operation) {
  switch (operation) {
    case Operation::set: return "set";
    case Operation::get: return "get";
    case Operation::set_if_absent: return "set_if_absent";
    case Operation::remove: return "remove";
  }
  return "unknown operation";
}

std::string encode(const Greeting& greeting) {
  std::string bytes(kMagic);
  bytes += greeting.wants_proof ? '\x01' : '\0';
  bytes.append(kGreetingBytes - kStoreNonceBytes - bytes.size(), '\0');
  return bytes + greeting.nonce;
}

Result<Greeting> decode_greeting(std::string_view bytes) {
  constexpr size_t kFlagBytes = kGreetingBytes - kStoreNonceBytes - kMagicBytes;
  const std::string_view flags = bytes.substr(kMagicBytes, kFlagBytes);
  if (bytes.size() != kGreetingBytes || (flags[0] & ~1) != 0 ||
      flags.find_first_not_of('\0', 1) != std::string_view::npos) {
    return Status(Code::internal, "the server's greeting makes no sense");
  }
  return Greeting{flags[0] != '\0', std::string(bytes.substr(kGreetingBytes - kStoreNonceBytes))};
}

std::array<char, kRequestHeadBytes> encode_request_head(Operation operation, size_t key_bytes,
                                                        size_t value_bytes) {
  std::array<char, kRequestHeadBytes> bytes{};
  bytes[0] = static_cast<char>(operation);
  store(bytes.data() + 2, 2, key_bytes);
  store(bytes.data() + 4, 4, value_bytes);
  return bytes;
}

std::array<char, kAnswerHeadBytes> encode_answer_head(Code code, size_t value_bytes) {
  std::array<char, kAnswerHeadBytes> bytes{};
  bytes[0] = static_cast<char>(code);
  store(bytes.data() + 4, 4, value_bytes);
  return bytes;
}

Result<AnswerHead> decode_answer_head(const std::array<char, kAnswerHeadBytes>& bytes) {
  const AnswerHead head{static_cast<Code>(bytes[0]), load(bytes.data() + 4, 4)};
  const bool sound = static_cast<uint8_t>(bytes[0]) <= static_cast<uint8_t>(Code::internal) &&
                     load(bytes.data() + 1, 3) == 0 && head.value_bytes <= kValueBytesMax;
  if (!sound) return Status(Code::internal, "the server's answer makes no sense");
  return head;
}

size_t RequestReader::wanted() const {
  return stage_ == Stage::body ? body_bytes_ - arrived_ : fixed_bytes() - filled_;
}

RequestReader::Outcome RequestReader::feed(std::string_view bytes) {
  if (stage_ == Stage::body) return feed_body(bytes);
  std::memcpy(fixed_.data() + filled_, bytes.data(), bytes.size());
  filled_ += bytes.size();
  if (stage_ == Stage::magic) return feed_magic();
  if (filled_ < fixed_bytes()) return Outcome::more;
  if (stage_ == Stage::head) return feed_head();
  stage_ = Stage::head;
  filled_ = 0;
  return Outcome::proof;
}

RequestReader::Outcome RequestReader::feed_magic() {
  // The bytes are compared as they come, so that a client of another protocol is refused by its first
  // wrong byte.
  if (std::string_view(fixed_.data(), filled_) != kMagic.substr(0, filled_)) {
    constexpr size_t kName = kMagicBytes - 1;  // then comes the version
    const bool ours = std::string_view(fixed_.data(), kName) == kMagic.substr(0, kName);
    return filled_ == kMagicBytes && ours ? Outcome::other_version : Outcome::refused;
  }
  if (filled_ < kMagicBytes) return Outcome::more;
  stage_ = wants_proof_ ? Stage::proof : Stage::head;
  filled_ = 0;
  return Outcome::greeted;
}

RequestReader::Outcome RequestReader::feed_head() {
  const auto operation = static_cast<uint8_t>(fixed_[0]);
  const size_t value_bytes = load(fixed_.data() + 4, 4);
  key_bytes_ = load(fixed_.data() + 2, 2);
  operation_ = static_cast<Operation>(operation);
  const bool has_value = operation_ == Operation::set || operation_ == Operation::set_if_absent;
  const bool sound = operation >= 1 && operation <= 4 && fixed_[1] == 0 && key_bytes_ >= 1 &&
                     key_bytes_ <= kKeyBytesMax && value_bytes <= kValueBytesMax &&
                     (has_value || value_bytes == 0);
  if (!sound) return Outcome::refused;
  stage_ = Stage::body;
  filled_ = 0;
  body_bytes_ = key_bytes_ + value_bytes;
  arrived_ = 0;
  dropping_ = false;
  return Outcome::more;
}

RequestReader::Outcome RequestReader::feed_body(std::string_view bytes) {
  arrived_ += bytes.size();
  if (!dropping_ && !budget_.charge(bytes.size())) {
    // Read on to the request's end, so that it can be answered, but keep nothing of it.
    dropping_ = true;
    budget_.give_back(held_);
    held_ = 0;
    WipedText().swap(body_);
  }
  if (!dropping_) {
    held_ += bytes.size();
    body_.append(bytes);
  }
  return arrived_ < body_bytes_ ? Outcome::more : Outcome::request;
}

Request RequestReader::take_request() {
  Request request;
  request.operation = operation_;
  request.too_much = dropping_;
  if (!dropping_) {
    request.key = body_.substr(0, key_bytes_);
    request.value = body_.substr(key_bytes_);
  }
  WipedText().swap(body_);
  budget_.give_back(held_);
  held_ = 0;
  stage_ = Stage::head;
  return request;
}

}  // namespace nezha::rendezvous
