// What a rank that has proved itself says of its port, and what a rank publishes of where it listens: any
// bytes. What is understood comes back byte for byte, and is in its range.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "fuzz/fuzz.h"
#include "fabric/port_name.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nezha::transport;
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  PortName message;
  if (decode(bytes, &message)) {
    NEZHA_CHECK(!message.name.empty() && message.name.size() <= kPortNameMax);
    const auto again = encode(message);
    NEZHA_CHECK(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
  }
  const std::string_view blob(reinterpret_cast<const char*>(data), size);
  const ControlAddress address = control_address_of(blob);
  if (size >= 2) NEZHA_CHECK(encode(address) == blob);
  if (size < 2) NEZHA_CHECK(address.port == 0 && address.address.empty());
  return 0;
}
