#include "base/bind_device.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/descriptor.h"

namespace nezha {

Status bind_to_device(int fd, const std::string& device) {
  if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, device.c_str(),
                 static_cast<socklen_t>(device.size())) == 0) {
    return Status::ok();
  }
  const int number = errno;
  // Kernels before 5.7 want a privilege for this.
  return error(Code::unsupported, "sockets cannot be bound to device %s (%s) and have its address only: "
               "packets may take another port of this host, whose rate and faults then count as this "
               "rail's; %s", device.c_str(), std::strerror(number),
               number == EPERM ? "give the process CAP_NET_RAW, or route each rail's network through its "
                                 "own device"
                               : "nezha info lists the devices")
      .with_errno(number);
}

Status can_bind_to_device(const std::string& device) {
  const Descriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return Status::ok();  // nothing is known
  return bind_to_device(fd.get(), device);
}

}  // namespace nezha
