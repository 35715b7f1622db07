// Descriptor: a descriptor of the system that closes itself.
//
// Contract: owns it from construction to `release`; moves, is not copied; one thread. A child of fork()
// has it closed (base/fork_guard.h): the object of the parent that the child finds in its memory owns
// nothing there.
#pragma once

#include <cstdint>
#include <utility>

namespace nezha {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) { reset(fd); }
  Descriptor(Descriptor&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), generation_(other.generation_) {}
  // The parameter takes what this object owned before, and closes it.
  Descriptor& operator=(Descriptor other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(generation_, other.generation_);
    return *this;
  }
  ~Descriptor() { reset(-1); }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release();
  void reset(int fd);

 private:
  int fd_ = -1;
  uint32_t generation_ = 0;  // of the process that opened it
};

}  // namespace nezha
