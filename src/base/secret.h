// Secret: 32 bytes that leave no trace behind. They lie in pages that no core dump contains, and are
// wiped when the object ends.
//
// Contract: a value, of any thread; a copy is another place with the same life. A fresh one is zeros.
// Comparison is constant-time. (What OpenSSL makes of a secret while it computes, it wipes itself.)
#pragma once

#include <array>
#include <cstddef>

namespace nezha {

inline constexpr size_t kSecretBytes = 32;

class Secret {
 public:
  using Bytes = std::array<std::byte, kSecretBytes>;

  Secret();
  // Takes a MAC that becomes a key, and wipes where it was.
  Secret(Bytes&& bytes);
  Secret(const Secret& other);
  Secret& operator=(const Secret& other);
  ~Secret();

  std::byte* data() { return bytes_->data(); }
  const std::byte* data() const { return bytes_->data(); }
  static constexpr size_t size() { return kSecretBytes; }
  std::byte* begin() { return data(); }
  std::byte* end() { return data() + kSecretBytes; }
  const std::byte* begin() const { return data(); }
  const std::byte* end() const { return data() + kSecretBytes; }
  friend bool operator==(const Secret& a, const Secret& b);

 private:
  Bytes* const bytes_;
};

}  // namespace nezha
