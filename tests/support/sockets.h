// The connections of this process on one loopback rail, found from outside the library, so that a
// test can break them.
//
// Contract: plain functions, any thread. A descriptor may be closed by its owner meanwhile: then
// there was nothing to break.
#pragma once

#include <netinet/in.h>

#include <string>
#include <vector>

namespace nezha::testing {

// Descriptors of connected TCP sockets whose local address is `address`.
std::vector<int> connections_of(const std::string& address);
// The port on which this process listens at `address`; all of them.
std::vector<int> listening_ports_of(const std::string& address);
// Shuts all of them down in both directions. How many there were.
int break_rail(const std::string& address);
// Number of open descriptors of this process.
int open_descriptors();

sockaddr_in place(const std::string& address, int port);
// A connection, the caller's; -1 where nobody listens.
int dial(const std::string& address, int port);

// A loopback address of the caller's own, so that no case can take the port of another.
std::string fresh_host();
// A port of it on which nobody listens; 0 when there is none.
uint16_t free_port_of(const std::string& host);
// A descriptor, the caller's, that keeps others from the port, on which nobody listens; -1: it is taken.
int keep_port(const std::string& host, uint16_t port);

}  // namespace nezha::testing
