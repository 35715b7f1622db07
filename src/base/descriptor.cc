#include "base/descriptor.h"

#include <unistd.h>

#include "base/fork_guard.h"

namespace nezha {

void Descriptor::reset(int fd) {
  if (const int old = release(); old >= 0) close(old);
  if (fd < 0) return;  // errno still says why
  fd_ = fd;
  generation_ = hold_descriptor(fd);
}

int Descriptor::release() {
  const int fd = std::exchange(fd_, -1);
  if (fd < 0 || generation_ != process_generation()) return -1;
  drop_descriptor(fd);
  return fd;
}

}  // namespace nezha
