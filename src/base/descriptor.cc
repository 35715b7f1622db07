#include "base/descriptor.h"

#include <unistd.h>

namespace nezha {

void Descriptor::reset(int fd) {
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
}

}  // namespace nezha
