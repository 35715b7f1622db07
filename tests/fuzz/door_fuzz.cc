// Messages at the door of an `ofi` rail: any bytes. What is understood comes back byte for byte, and no
// address is taken for a rank's that is not beside its door.
#include <netinet/in.h>
#include <rdma/fabric.h>

#include <cstring>

#include "base/check.h"
#include "fuzz/fuzz.h"
#include "transport/ofi/door_message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nezha::transport;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  DoorMessage message;
  if (decode(bytes, &message)) {
    NEZHA_CHECK(message.name.size() <= kDoorNameMax);
    NEZHA_CHECK(encode(message) == bytes);
  }
  if (size == 0) return 0;
  // The first byte says how the rest is two names.
  const std::string_view rest = bytes.substr(1);
  const size_t half = rest.size() / 2;
  const std::string_view name = rest.substr(0, half);
  const std::string_view door = rest.substr(half, half);
  for (const uint32_t format : {FI_SOCKADDR_IN, FI_SOCKADDR_IN6, FI_SOCKADDR, FI_ADDR_STR, FI_ADDR_EFA}) {
    if (!is_beside(format, name, door)) continue;
    NEZHA_CHECK(!name.empty() && !door.empty());
    if (format == FI_SOCKADDR_IN && name.size() == sizeof(sockaddr_in)) {
      NEZHA_CHECK(name.substr(4, 4) == door.substr(4, 4));
    }
  }
  return 0;
}
