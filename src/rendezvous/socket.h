// Sockets, as descriptors that close themselves: the few calls on them that the stores need.
//
// Contract: sockets are non-blocking and close-on-exec. connect_to, wait_for, send_all and receive_some
// block until the deadline at most, and name resolution as long as the system's resolver does; nothing
// else blocks. Failures carry errno and the address.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/socket_address.h"
#include "base/status.h"

namespace nezha::rendezvous {

// Listens on the first address of `host` that belongs to this node, and on no other.
Result<Descriptor> listen_on(const std::string& host, uint16_t port);
// The port that a listening socket has.
inline uint16_t port_of(const Descriptor& socket) { return local_address(socket.get()).port(); }
// One attempt over all addresses of `host`.
Result<Descriptor> connect_to(const std::string& host, uint16_t port, Nanoseconds deadline);
// Small messages at once; a dead host is noticed within about a minute.
void set_connection_options(const Descriptor& socket);

// Nothing has arrived, not even the end. On a connection that asked nothing, an answer would be taken for
// that of the next request, and an end means that the server is gone.
bool is_quiet(const Descriptor& socket);

enum class Ready : uint8_t { yes, timed_out, failed };
// Waits for poll(2) `events`.
Ready wait_for(const Descriptor& socket, short events, Nanoseconds deadline);

enum class Transfer : uint8_t { done, timed_out, lost };
Transfer send_all(const Descriptor& socket, std::string_view bytes, Nanoseconds deadline);
// Waits for at least one byte; *size is the capacity of `at` and then what arrived.
Transfer receive_some(const Descriptor& socket, char* at, size_t* size, Nanoseconds deadline);

}  // namespace nezha::rendezvous
