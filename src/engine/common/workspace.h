// Workspace: the private memory of a chunk of which the rank keeps nothing, with a count of its
// users, because sends from it may outlive the chunk.
//
// Contract: progress lock held. `release` gives a share back, and that of the last one returns the memory
// to the pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "engine/common/buffer_pool.h"
#include "transport/work_request.h"

namespace nezha::engine {

class Workspace final : public transport::SharedSource {
 public:
  // Null when there is no memory.
  static Workspace* make(BufferPool& pool, size_t bytes) {
    const Buffer self = pool.allocate(sizeof(Workspace));
    const Buffer buffer = self.data == nullptr ? Buffer() : pool.allocate(bytes);
    if (buffer.data != nullptr) return new (self.data) Workspace(pool, self, buffer);
    pool.give(self);
    return nullptr;
  }
  void release() override {
    if (--shares_ > 0) return;
    pool_.give(buffer_);
    pool_.give(self_);
  }
  Workspace* share() {
    ++shares_;
    return this;
  }
  std::byte* data() { return buffer_.data; }

 private:
  Workspace(BufferPool& pool, Buffer self, Buffer buffer) : pool_(pool), self_(self), buffer_(buffer) {}

  BufferPool& pool_;
  const Buffer self_;  // the memory of this record
  const Buffer buffer_;
  uint32_t shares_ = 1;
};

}  // namespace nezha::engine
