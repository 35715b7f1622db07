// What the connections of an `ofi` rail say to each other: any bytes. What is understood is in its range
// and comes back byte for byte, except for times that cannot be reckoned with; another connection's token
// is never believed.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "fuzz/fuzz.h"
#include "fabric/ofi_message.h"
#include "wire/little_endian.h"

namespace nezha::transport {
namespace {

constexpr Nanoseconds kTimeMax = Nanoseconds{1} << 60;

void check_preamble(std::span<const std::byte> message) {
  const uint64_t token = message.size() < sizeof(token) ? 0 : wire::load_le<uint64_t>(message.data());
  OfiPreamble preamble;
  NEZHA_CHECK(!decode(message, token ^ 1, &preamble));
  if (!decode(message, token, &preamble)) return;
  NEZHA_CHECK(message.size() >= kPreambleBytes && preamble.token == token);
  NEZHA_CHECK(preamble.kind >= OfiMessageKind::frames && preamble.kind <= OfiMessageKind::credit);
  NEZHA_CHECK(std::abs(preamble.sent_at) <= kTimeMax && std::abs(preamble.least) <= kTimeMax);
  std::array<std::byte, kPreambleBytes> again;
  encode(preamble, again.data());
  OfiPreamble second;
  NEZHA_CHECK(decode(again, token, &second));
  NEZHA_CHECK(second.sent_at == preamble.sent_at && second.least == preamble.least);
  // The rest has no form but one.
  constexpr size_t kSentAt = 24, kBefore = 32, kLeast = 36;
  NEZHA_CHECK(std::memcmp(again.data(), message.data(), kSentAt) == 0);
  NEZHA_CHECK(std::memcmp(&again[kBefore], &message[kBefore], kLeast - kBefore) == 0);
}

void check_grant(std::span<const std::byte> bytes) {
  OfiGrant grant;
  if (!decode(bytes, &grant)) return;
  std::array<std::byte, kGrantBytes - kPreambleBytes> again;
  NEZHA_CHECK(bytes.size() == again.size());
  encode(grant, again.data());
  NEZHA_CHECK(std::memcmp(again.data(), bytes.data(), again.size()) == 0);
}

}  // namespace
}  // namespace nezha::transport

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nezha::transport;
  // In memory of exactly that size, so that reading behind it is seen.
  const std::vector<std::byte> bytes(reinterpret_cast<const std::byte*>(data),
                                     reinterpret_cast<const std::byte*>(data) + size);
  check_preamble(bytes);
  check_grant(bytes);
  if (size > kPreambleBytes) check_grant(std::span(bytes).subspan(kPreambleBytes));
  return 0;
}
