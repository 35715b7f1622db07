// AlteringProxy: a network that changes bits. What this process dials at one address is led through it.
//
// Contract
//   Owner    the test; one at a time. Connections that were made while it lived end with it.
//   Threads  its own, two for each connection. The counters may be read at any time.
// TCP's own checksum is right for what it passes on. The first kHandshakeBytes of each direction pass
// as they are: ranks test a connection with those. It takes the place of connect() in the program that
// links it.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <cstddef>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "base/descriptor.h"

namespace nezha::testing {

class AlteringProxy {
 public:
  static constexpr size_t kHandshakeBytes = 128 << 10;
  static constexpr size_t kEveryBytes = 512 << 10;  // at most, between two changes of a direction

  explicit AlteringProxy(std::string address);
  ~AlteringProxy();
  AlteringProxy(const AlteringProxy&) = delete;
  AlteringProxy& operator=(const AlteringProxy&) = delete;

  // From now on it changes nothing.
  void stop() { altering_ = false; }
  int changed_bits() const { return changed_bits_; }
  int changed_connections() const { return changed_connections_; }

  // What connect() does instead: false where the target is none of its own.
  bool lead(int fd, const sockaddr* target, socklen_t length, int* result);

 private:
  struct Pair {
    Descriptor dialer;
    Descriptor target;
    std::atomic<bool> changed{false};
    std::thread there;
    std::thread back;
  };

  void accept_all();
  void serve(Descriptor dialer);
  void carry(Pair& pair, int from, int to, unsigned seed);

  const std::string address_;
  Descriptor listener_;
  std::atomic<bool> altering_{true};
  std::atomic<bool> over_{false};
  std::atomic<int> changed_bits_{0};
  std::atomic<int> changed_connections_{0};
  std::mutex mutex_;
  std::map<int, int> targets_;  // the dialer's port -> where it wanted to go
  std::list<Pair> pairs_;       // of the accepting thread, and of the destructor behind it
  std::thread acceptor_;
};

}  // namespace nezha::testing
