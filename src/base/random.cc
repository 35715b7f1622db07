#include "base/random.h"

#include <openssl/rand.h>

namespace nezha {

Status fill_with_random(std::span<std::byte> out, const char* what) {
  if (RAND_bytes(reinterpret_cast<unsigned char*>(out.data()), static_cast<int>(out.size())) == 1) {
    return Status::ok();
  }
  return error(Code::exhausted, "the operating system's random generator gave no %zu bytes for %s; check "
               "that /dev/urandom is readable in this container", out.size(), what);
}

}  // namespace nezha
