// Socket: an owned descriptor, and the few calls on it that the stores need.
//
// Contract: sockets are non-blocking and close-on-exec. connect_to, wait_for, send_all and receive_some
// block until the deadline at most, and name resolution as long as the system's resolver does; nothing
// else blocks. Failures carry errno and the address.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/status.h"

namespace nezha::rendezvous {

class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket();
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

// Listens on the first address of `host` that belongs to this node, and on no other.
Result<Socket> listen_on(const std::string& host, uint16_t port);
// The port that a listening socket has.
uint16_t port_of(const Socket& socket);
// One attempt over all addresses of `host`.
Result<Socket> connect_to(const std::string& host, uint16_t port, Nanoseconds deadline);
// One attempt at a Unix socket, which the server's queue may hold up but no network.
Result<Socket> connect_to_unix(const std::string& path);
// Small messages at once; a dead host is noticed within about a minute.
void set_connection_options(const Socket& socket);

// Nothing has arrived, not even the end. On a connection that asked nothing, an answer would be taken for
// that of the next request, and an end means that the server is gone.
bool is_quiet(const Socket& socket);

enum class Ready : uint8_t { yes, timed_out, failed };
// Waits for poll(2) `events`.
Ready wait_for(const Socket& socket, short events, Nanoseconds deadline);

enum class Transfer : uint8_t { done, timed_out, lost };
Transfer send_all(const Socket& socket, std::string_view bytes, Nanoseconds deadline);
// Waits for at least one byte; *size is the capacity of `at` and then what arrived.
Transfer receive_some(const Socket& socket, char* at, size_t* size, Nanoseconds deadline);

}  // namespace nezha::rendezvous
