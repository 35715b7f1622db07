// HiddenText: text that leaves no trace behind, such as a secret as its user wrote it. What is longer
// than 15 bytes lies in pages that no core dump contains, and is wiped when the text ends or moves
// elsewhere. (Whatever is shorter protects nothing: wire/key_file.h.)
//
// Contract: a std::string in every other way. Meant for few and short texts: each takes pages of its own.
#pragma once

#include <cstddef>
#include <string>

namespace nezha {

// Of whole pages; throws std::bad_alloc.
void* take_hidden_memory(size_t bytes);
void give_hidden_memory(void* memory, size_t bytes) noexcept;

template <class T>
struct HiddenAllocator {
  using value_type = T;
  HiddenAllocator() = default;
  template <class Other>
  HiddenAllocator(const HiddenAllocator<Other>&) {}
  T* allocate(size_t count) { return static_cast<T*>(take_hidden_memory(count * sizeof(T))); }
  void deallocate(T* memory, size_t count) noexcept { give_hidden_memory(memory, count * sizeof(T)); }
  friend bool operator==(const HiddenAllocator&, const HiddenAllocator&) { return true; }
};

using HiddenText = std::basic_string<char, std::char_traits<char>, HiddenAllocator<char>>;

}  // namespace nezha
