// Sockets of one rail: listening on its address, dialling from it.
//
// Contract: plain functions over descriptors, any thread. Sockets are non-blocking and close on exec.
// A socket that stands for a rail is bound to the rail's device as well as to its address, so that a
// packet never leaves or arrives through another port of the host; where the system refuses that, the log
// says so, once for each device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/status.h"

namespace nezha::transport {

struct SocketPlace {
  std::string address;  // numeric, without scope
  std::string device;   // "": not bound to a device
};

// Listens on a port of [low, high] (0: any) on which nobody listens; connections of a program that had it
// before may still be ending. Sets *port.
Result<Descriptor> listen_on(const SocketPlace& place, uint16_t low, uint16_t high, uint16_t* port);

// Starts a connection from `from` to (address, port); it is complete when the socket is writable.
Result<Descriptor> dial(const SocketPlace& from, const std::string& address, uint16_t port);

// Sets an option that only tunes: a kernel that refuses it still moves the bytes.
void tune(int fd, int level, int name, int value);

// The outcome of a dial that became writable; 0 or an errno.
int dial_error(int fd);

// The network device that has this address, to which a rail that is named after an adapter is
// bound; "" where no device lists the address, such as 127.3.4.5.
std::string device_with(const std::string& address);

struct DeviceAddress {
  std::string address;  // numeric
  uint8_t prefix_length = 0;
};

// The addresses, of that network device or of all (""), that other hosts can reach: the first of
// each family, IPv4 before IPv6, never loopback or link-local ones.
std::vector<DeviceAddress> addresses_of_device(const std::string& device);
// The first address in `addresses_of_device`; "" where there is none.
std::string address_of_device(const std::string& device);

// "10.1.0.1:40112 -> 10.1.0.2:40001"
std::string describe_connection(int fd);

}  // namespace nezha::transport
