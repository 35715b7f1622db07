// The stream over which the two halves exchange addresses and meet between phases: a socket pair after a
// fork, a TCP connection otherwise. Used by one thread; errors end the process (watch.h).
#pragma once

#include <cstddef>
#include <utility>

#include "options.h"

namespace nezha::bench {

class SideChannel {
 public:
  explicit SideChannel(int descriptor) : descriptor_(descriptor) {}

  static std::pair<int, int> make_pair();
  static int meet(const Options& options);

  void send(const void* data, size_t bytes);
  void receive(void* data, size_t bytes);  // waits
  bool receive_token();                    // one byte, or false at once

 private:
  int descriptor_;
};

}  // namespace nezha::bench
