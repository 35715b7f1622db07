#include "engine/buffer_pool.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace nezha::engine {

BufferPool::~BufferPool() {
  for (Free* head : free_) {
    while (head != nullptr) {
      Free* next = head->next;
      std::free(head);
      head = next;
    }
  }
}

Buffer BufferPool::take(size_t bytes) {
  const size_t rounded = std::bit_ceil(std::max<size_t>(bytes, size_t{1} << kSmallestShift));
  const auto size_class = static_cast<uint32_t>(std::countr_zero(rounded)) - kSmallestShift;
  if (size_class >= kClasses) return {};
  void* memory = free_[size_class];
  if (memory != nullptr) {
    free_[size_class] = free_[size_class]->next;
  } else {
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
