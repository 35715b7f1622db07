#include "base/hmac.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/check.h"
#include "base/crypto_use.h"

namespace nezha {

Mac hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> message) {
  const CryptoUse use;
  Mac mac;
  unsigned int size = 0;
  const unsigned char* result =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(message.data()), message.size(),
           reinterpret_cast<unsigned char*>(mac.data()), &size);
  // Going on without a MAC would accept anybody.
  NEZHA_CHECK(result != nullptr && size == kMacBytes);
  return mac;
}

bool same_mac(std::span<const std::byte> expected, std::span<const std::byte> received) {
  if (expected.size() != received.size()) return false;
  return CRYPTO_memcmp(expected.data(), received.data(), expected.size()) == 0;
}

}  // namespace nezha
