// Texts that leave no trace behind. HiddenText is for few and short texts that stay, such as a
// secret as its user wrote it: a text of more than 15 bytes lies in pages that no core dump
// contains, and is wiped when it ends or moves elsewhere. (A secret that is shorter protects
// nothing: wire/key_file.h.) WipedText is for a text that may have a secret in it and does not
// stay, such as a value of a store: it is wiped, but lies in the heap meanwhile.
//
// Contract: each is a std::string in every other way. A HiddenText takes pages of its own.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace nezha {

// Allocates whole pages, which core dumps leave out; throws std::bad_alloc.
void* take_hidden_memory(size_t bytes);
void give_hidden_memory(void* memory, size_t bytes) noexcept;
// Fills the memory with zeros; the compiler does not leave this call out.
void wipe(void* memory, size_t bytes) noexcept;

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

template <class T>
struct WipingAllocator {
  using value_type = T;
  WipingAllocator() = default;
  template <class Other>
  WipingAllocator(const WipingAllocator<Other>&) {}
  T* allocate(size_t count) { return std::allocator<T>().allocate(count); }
  void deallocate(T* memory, size_t count) noexcept {
    wipe(memory, count * sizeof(T));
    std::allocator<T>().deallocate(memory, count);
  }
  friend bool operator==(const WipingAllocator&, const WipingAllocator&) { return true; }
};

using HiddenText = std::basic_string<char, std::char_traits<char>, HiddenAllocator<char>>;
using WipedText = std::basic_string<char, std::char_traits<char>, WipingAllocator<char>>;

}  // namespace nezha
