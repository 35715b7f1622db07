#include "aggregation/protocol/job_key.h"

#include <algorithm>
#include <charconv>

#include "base/hex.h"
#include "wire/little_endian.h"

namespace nezha::aggregation {
namespace {

constexpr size_t kNumberDigits = 16;
constexpr size_t kTextBytes = kNumberDigits + 1 + 2 * wire::kSecretBytes;

// Digits only: no sign, no "0x".
template <class Number>
bool get_hex(std::string_view digits, Number* out) {
  const auto [end, wrong] = std::from_chars(digits.data(), digits.data() + digits.size(), *out, 16);
  return digits[0] != '-' && wrong == std::errc() && end == digits.data() + digits.size();
}

}  // namespace

wire::Secret job_key_of(const wire::Secret& key, uint64_t job) {
  std::array<std::byte, sizeof(job)> number;
  wire::store_le(number.data(), job);
  std::string text = "aggregation job:";
  text.append(reinterpret_cast<const char*>(number.data()), number.size());
  return wire::channel_mac_of(key, text);
}

uint64_t job_number_of(std::string_view name) {
  return wire::load_le<uint64_t>(wire::secret_from_text(name).data());
}

std::string to_text(const JobKey& key) {
  std::string text;
  for (int shift = 56; shift >= 0; shift -= 8) put_hex(&text, static_cast<std::byte>(key.job >> shift));
  text += ':';
  for (const std::byte byte : key.key) put_hex(&text, byte);
  return text;
}

Result<JobKey> job_key_from_text(std::string_view text) {
  JobKey key;
  bool sane = text.size() == kTextBytes && text[kNumberDigits] == ':' &&
              get_hex(text.substr(0, kNumberDigits), &key.job);
  for (size_t i = 0; sane && i < key.key.size(); ++i) {
    uint8_t byte = 0;
    sane = get_hex(text.substr(kNumberDigits + 1 + 2 * i, 2), &byte);
    key.key.data()[i] = static_cast<std::byte>(byte);
  }
  if (sane) return key;
  return error(Code::invalid_argument, "aggregator_job_key is not a job's key; expected is what "
               "`nezha aggregator job-key` prints, 16 and 64 hexadecimal digits joined by ':'");
}

}  // namespace nezha::aggregation
