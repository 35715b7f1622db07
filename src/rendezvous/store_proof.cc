#include "rendezvous/store_proof.h"

#include <span>

#include "base/random.h"

namespace nezha::rendezvous {

Result<std::string> fresh_store_nonce() {
  std::string nonce(kStoreNonceBytes, '\0');
  NEZHA_RETURN_IF_ERROR(fill_with_random(std::as_writable_bytes(std::span(nonce)), "the store"));
  return nonce;
}

std::string store_mac_of(const StoreKey& key, StoreSide speaker, std::string_view server_nonce,
                         std::string_view client_nonce) {
  // Both beginnings have one length, as the nonces have, so no two transcripts have the same bytes.
  std::string transcript = speaker == StoreSide::client ? "store client" : "store server";
  transcript.append(server_nonce).append(client_nonce);
  const Mac mac = hmac_sha256(key, std::as_bytes(std::span(transcript)));
  return {reinterpret_cast<const char*>(mac.data()), mac.size()};
}

bool same_store_mac(std::string_view expected, std::string_view received) {
  return same_mac(std::as_bytes(std::span(expected)), std::as_bytes(std::span(received)));
}

}  // namespace nezha::rendezvous
