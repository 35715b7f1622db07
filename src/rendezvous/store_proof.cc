#include "rendezvous/store_proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "base/check.h"

namespace nezha::rendezvous {

Result<std::string> fresh_store_nonce() {
  std::string nonce(kStoreNonceBytes, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), static_cast<int>(nonce.size())) != 1) {
    return error(Code::exhausted, "the operating system's random generator gave no %zu bytes for the "
                 "store; check that /dev/urandom is readable in this container", nonce.size());
  }
  return nonce;
}

std::string store_mac_of(const StoreKey& key, StoreSide speaker, std::string_view server_nonce,
                         std::string_view client_nonce) {
  // Of one length, as the nonces are: no two transcripts have the same bytes.
  std::string transcript = speaker == StoreSide::client ? "store client" : "store server";
  transcript.append(server_nonce).append(client_nonce);
  std::string mac(kStoreMacBytes, '\0');
  unsigned int size = 0;
  const unsigned char* result =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(transcript.data()), transcript.size(),
           reinterpret_cast<unsigned char*>(mac.data()), &size);
  // Going on without a MAC would admit anybody.
  NEZHA_CHECK(result != nullptr && size == kStoreMacBytes);
  return mac;
}

bool same_store_mac(std::string_view expected, std::string_view received) {
  return expected.size() == received.size() &&
         CRYPTO_memcmp(expected.data(), received.data(), expected.size()) == 0;
}

}  // namespace nezha::rendezvous
