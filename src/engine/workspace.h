// Workspace: the private memory of a chunk whose rank keeps nothing of it, counted, because sends from it
// may outlive the chunk.
//
// Contract: baton held. It lives at the head of a pool buffer; whoever holds a share gives it back with
// `release`, and the last one returns the buffer to the pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "engine/buffer_pool.h"

namespace nezha::engine {

struct Workspace {
  Buffer buffer;
  uint32_t shares = 1;

  // Null when there is no memory.
  static Workspace* make(BufferPool& pool, size_t bytes) {
    const Buffer buffer = pool.take(kHeadBytes + bytes);
    return buffer.data == nullptr ? nullptr : new (buffer.data) Workspace{buffer};
  }
  static void release(BufferPool& pool, Workspace* workspace) {
    if (workspace != nullptr && --workspace->shares == 0) pool.give(workspace->buffer);
  }
  Workspace* share() {
    ++shares;
    return this;
  }
  std::byte* data() { return buffer.data + kHeadBytes; }

 private:
  static constexpr size_t kHeadBytes = 64;  // keeps the data on a cache line of its own
};

}  // namespace nezha::engine
