#include "base/secret.h"

#include <openssl/crypto.h>

#include <mutex>
#include <vector>

#include "base/hidden_text.h"

namespace nezha {
namespace {

// Places for secrets, in pages that hold nothing else. A page is never given back: there are few.
class Places {
 public:
  Secret::Bytes* allocate() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) map_page();
    Secret::Bytes* const place = free_.back();
    free_.pop_back();
    return new (place) Secret::Bytes{};
  }
  void give(Secret::Bytes* place) {
    wipe(place, sizeof(*place));
    const std::lock_guard lock(mutex_);
    free_.push_back(place);  // has room: map_page() reserved it
  }

 private:
  static constexpr size_t kPageBytes = 4096;
  static constexpr size_t kPlaces = kPageBytes / sizeof(Secret::Bytes);

  void map_page() {
    free_.reserve((pages_ + 1) * kPlaces);
    auto* const first = static_cast<Secret::Bytes*>(take_hidden_memory(kPageBytes));
    ++pages_;
    for (size_t i = 0; i < kPlaces; ++i) free_.push_back(first + i);
  }

  std::mutex mutex_;
  std::vector<Secret::Bytes*> free_;
  size_t pages_ = 0;
};

// Lives until the process ends: secrets may be static, too.
Places& places() {
  static Places* const kPlaces = new Places();
  return *kPlaces;
}

}  // namespace

Secret::Secret() : bytes_(places().allocate()) {}
Secret::Secret(Bytes&& bytes) : Secret() {
  *bytes_ = bytes;
  wipe(bytes.data(), bytes.size());
}
Secret::Secret(const Secret& other) : Secret() { *bytes_ = *other.bytes_; }
Secret& Secret::operator=(const Secret& other) {
  *bytes_ = *other.bytes_;
  return *this;
}
Secret::~Secret() { places().give(bytes_); }

bool operator==(const Secret& a, const Secret& b) {
  return CRYPTO_memcmp(a.data(), b.data(), kSecretBytes) == 0;
}

}  // namespace nezha
