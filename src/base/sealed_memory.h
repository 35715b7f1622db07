// SealedMemory: memory without a name (memfd) that several processes map.
//
// Contract
//   Owner    one object in each process. The memory is gone with the last of them, however they end. A
//            child of fork() does not have it.
//   Size     sealed: nobody can shrink or grow it. Where it is reserved, reading it never faults. It
//            begins as zeros, and is zeros again where it was given back.
//   Errors   `unsupported` or `exhausted` with the system's reason; `invalid_argument` for a
//            descriptor from another process that is not such a memory of that size.
#pragma once

#include <cstddef>
#include <memory>

#include "base/descriptor.h"
#include "base/status.h"

namespace nezha {

class SealedMemory {
 public:
  // Makes memory. The system allocates its first `reserved` bytes at once, so that touching them cannot
  // fail. `memory` becomes the descriptor for the other processes.
  static Result<std::unique_ptr<SealedMemory>> create(size_t bytes, size_t reserved, Descriptor* memory);
  // Maps memory that another process made.
  static Result<std::unique_ptr<SealedMemory>> adopt(const Descriptor& memory, size_t bytes);
  // Any process with the descriptor may reserve bytes or give them back, for all processes. False:
  // they were not given back.
  static Status reserve(const Descriptor& memory, size_t offset, size_t bytes);
  static bool give_back(const Descriptor& memory, size_t offset, size_t bytes);
  ~SealedMemory();
  SealedMemory(const SealedMemory&) = delete;
  SealedMemory& operator=(const SealedMemory&) = delete;

  std::byte* data() const { return data_; }

 private:
  SealedMemory(std::byte* data, size_t bytes) : data_(data), bytes_(bytes) {}
  static Result<std::unique_ptr<SealedMemory>> map(const Descriptor& memory, size_t bytes);

  std::byte* const data_;
  const size_t bytes_;
};

}  // namespace nezha
