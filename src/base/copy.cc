#include "base/copy.h"

namespace nezha {

// All of a block is loaded before any of it is stored: compilers make a call of memcpy from a plain loop.
void copy_by_blocks(std::byte* to, const std::byte* from, size_t size) {
  using Vector = uint64_t __attribute__((vector_size(16), aligned(1), may_alias));
  constexpr size_t kBlock = 4 * sizeof(Vector);
  for (; size >= kBlock; size -= kBlock, to += kBlock, from += kBlock) {
    const auto* const in = reinterpret_cast<const Vector*>(from);
    auto* const out = reinterpret_cast<Vector*>(to);
    const Vector a = in[0], b = in[1], c = in[2], d = in[3];
    out[0] = a, out[1] = b, out[2] = c, out[3] = d;
  }
  std::memcpy(to, from, size);
}

}  // namespace nezha
