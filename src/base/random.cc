#include "base/random.h"

#include <sys/random.h>

#include <cerrno>

namespace nezha {

// Not OpenSSL's generator, which has a state for each thread, and locks.
Status fill_with_random(std::span<std::byte> out, const char* what) {
  for (size_t have = 0; have < out.size();) {
    const ssize_t got = getrandom(out.data() + have, out.size() - have, 0);
    if (got > 0) have += static_cast<size_t>(got);
    if (got > 0 || (got < 0 && errno == EINTR)) continue;
    return error(Code::exhausted, "the operating system's random generator gave no %zu bytes for %s; "
                 "check that getrandom(2) is allowed in this container", out.size(), what);
  }
  return Status::ok();
}

}  // namespace nezha
