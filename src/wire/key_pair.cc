#include "wire/key_pair.h"

#include <openssl/evp.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/crypto_use.h"
#include "base/hmac.h"
#include "base/random.h"

namespace nezha::wire {
namespace {

using Context = std::unique_ptr<EVP_PKEY_CTX, decltype(&EVP_PKEY_CTX_free)>;

const unsigned char* raw(const void* bytes) { return static_cast<const unsigned char*>(bytes); }

}  // namespace

void KeyPair::Free::operator()(evp_pkey_st* key) const { EVP_PKEY_free(key); }

Result<KeyPair> KeyPair::make() {
  Secret mine;  // any 32 bytes are a private key
  NEZHA_RETURN_IF_ERROR(fill_with_random(mine, "a key pair"));
  const CryptoUse use;
  EVP_PKEY* const made =
      EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, nullptr, raw(mine.data()), mine.size());
  KeyPair pair{Key(made)};
  pair.public_key_.resize(kPublicKeyBytes);
  size_t size = kPublicKeyBytes;
  auto* const bytes = reinterpret_cast<unsigned char*>(pair.public_key_.data());
  if (made == nullptr || EVP_PKEY_get_raw_public_key(made, bytes, &size) != 1) {
    return error(Code::exhausted, "OpenSSL made no key pair (X25519)");
  }
  return pair;
}

Result<Secret> KeyPair::shared_with(std::string_view theirs) const {
  Secret agreed;
  if (!derive(theirs, &agreed)) return error(Code::invalid_argument, "it is no public key (X25519)");
  std::string transcript = "handover";
  transcript += std::min<std::string_view>(public_key_, theirs);
  transcript += std::max<std::string_view>(public_key_, theirs);
  return Secret(hmac_sha256(agreed, std::as_bytes(std::span(transcript))));
}

bool KeyPair::derive(std::string_view theirs, Secret* agreed) const {
  if (theirs.size() != kPublicKeyBytes) return false;
  const CryptoUse use;
  const Key other(EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr, raw(theirs.data()),
                                              theirs.size()));
  const Context context(EVP_PKEY_CTX_new(key_.get(), nullptr), &EVP_PKEY_CTX_free);
  size_t size = agreed->size();
  auto* const bytes = reinterpret_cast<unsigned char*>(agreed->data());
  return other != nullptr && context != nullptr && EVP_PKEY_derive_init(context.get()) == 1 &&
         EVP_PKEY_derive_set_peer(context.get(), other.get()) == 1 &&
         EVP_PKEY_derive(context.get(), bytes, &size) == 1 && size == agreed->size();
}

std::string hidden(const Secret& shared, const Secret& secret) {
  std::string told(kSecretBytes, '\0');
  for (size_t i = 0; i < kSecretBytes; ++i) {
    told[i] = static_cast<char>(shared.data()[i] ^ secret.data()[i]);
  }
  return told;
}

Secret shown(const Secret& shared, std::string_view told) {
  Secret secret;
  for (size_t i = 0; i < kSecretBytes; ++i) {
    secret.data()[i] = shared.data()[i] ^ static_cast<std::byte>(told[i]);
  }
  return secret;
}

}  // namespace nezha::wire
