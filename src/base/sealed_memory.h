// SealedMemory: memory without a name (memfd) that several processes map.
//
// Contract
//   Owner    one object in each process. The memory is gone with the last of them, however they end. A
//            child of fork() does not have it.
//   Size     all of it is reserved when it is made, and sealed: nobody can shrink or grow it, so
//            reading it never faults. It begins as zeros.
//   Errors   `unsupported` or `exhausted` with the system's reason; `invalid_argument` for a descriptor
//            of somebody else's that is not such a memory of that size.
#pragma once

#include <cstddef>
#include <memory>

#include "base/descriptor.h"
#include "base/status.h"

namespace nezha {

class SealedMemory {
 public:
  // `memory` is what the others are to be given.
  static Result<std::unique_ptr<SealedMemory>> create(size_t bytes, Descriptor* memory);
  // Of somebody else's.
  static Result<std::unique_ptr<SealedMemory>> adopt(const Descriptor& memory, size_t bytes);
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
