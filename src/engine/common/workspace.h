// Workspace: the private memory of a chunk of which the rank keeps nothing, with a count of its
// users, because sends from it may outlive the chunk.
//
// Contract: progress lock held. Whoever holds a share gives it back with `release`, and the last one
// returns the memory to the pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "engine/common/buffer_pool.h"

namespace nezha::engine {

struct Workspace {
  Buffer self;    // the memory of this record
  Buffer buffer;
  uint32_t shares = 1;

  // Null when there is no memory.
  static Workspace* make(BufferPool& pool, size_t bytes) {
    const Buffer self = pool.take(sizeof(Workspace));
    const Buffer buffer = self.data == nullptr ? Buffer() : pool.take(bytes);
    if (buffer.data != nullptr) return new (self.data) Workspace{self, buffer};
    pool.give(self);
    return nullptr;
  }
  static void release(BufferPool& pool, Workspace* workspace) {
    if (workspace == nullptr || --workspace->shares > 0) return;
    pool.give(workspace->buffer);
    const Buffer self = workspace->self;
    pool.give(self);
  }
  Workspace* share() {
    ++shares;
    return this;
  }
  std::byte* data() { return buffer.data; }
};

}  // namespace nezha::engine
