#include "engine/common/buffer_pool.h"

#include <bit>
#include <cstdlib>

namespace nezha::engine {

BufferPool::~BufferPool() { trim(); }

void BufferPool::trim() {
  for (uint32_t size_class = 0; size_class < kClasses; ++size_class) {
    while (Free* const head = free_[size_class]) {
      free_[size_class] = head->next;
      bytes_held_ -= uint64_t{1} << (size_class + kSmallestShift);
      std::free(head);
    }
  }
}

bool BufferPool::make_room(size_t bytes) {
  if (bytes_held() + bytes <= limit_) return true;
  trim();
  if (bytes_held() + bytes <= limit_) return true;
  over_limit_ = true;
  return false;
}

bool BufferPool::charge(size_t bytes) {
  if (!make_room(bytes)) return false;
  charged_ += bytes;
  return true;
}

Buffer BufferPool::allocate(size_t bytes) {
  const size_t rounded = BufferPool::rounded(bytes);
  const auto size_class = static_cast<uint32_t>(std::countr_zero(rounded)) - kSmallestShift;
  if (size_class >= kClasses) return {};
  void* memory = free_[size_class];
  if (memory != nullptr) {
    free_[size_class] = free_[size_class]->next;
  } else {
    if (!make_room(rounded)) return {};
    constexpr size_t kCacheLine = 64;
    memory = std::aligned_alloc(kCacheLine, rounded);
    if (memory == nullptr) return {};
    ++allocations_;
    bytes_held_ += rounded;
  }
  bytes_in_use_ += rounded;
  return {static_cast<std::byte*>(memory), size_class};
}

void BufferPool::give(Buffer buffer) {
  if (buffer.data == nullptr) return;
  bytes_in_use_ -= size_t{1} << (buffer.size_class + kSmallestShift);
  auto* head = reinterpret_cast<Free*>(buffer.data);
  head->next = free_[buffer.size_class];
  free_[buffer.size_class] = head;
}

}  // namespace nezha::engine
