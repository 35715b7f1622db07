// KeyPair: how two ranks come to share a secret through a store that others read (X25519, RFC 7748).
//
// Contract: moved, not copied; one thread. A pair is made for one run, and its private half is wiped with
// it, so that nobody who reads the store later can decrypt what the two ranks said. A writer in the
// store can take the place of either rank.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/secret.h"
#include "base/status.h"

struct evp_pkey_st;  // OpenSSL's

namespace nezha::wire {

inline constexpr size_t kPublicKeyBytes = 32;

class KeyPair {
 public:
  // `exhausted` when the system gives no random numbers, or no memory.
  static Result<KeyPair> make();

  const std::string& public_key() const { return public_key_; }
  // HMAC(what X25519 gives, "handover" | both public keys, the lower first): the same for both ranks.
  // `invalid_argument` where `theirs` is no public key.
  Result<Secret> shared_with(std::string_view theirs) const;

 private:
  struct Free {
    void operator()(evp_pkey_st* key) const;
  };
  using Key = std::unique_ptr<evp_pkey_st, Free>;
  explicit KeyPair(Key key) : key_(std::move(key)) {}
  bool derive(std::string_view theirs, Secret* agreed) const;

  Key key_;
  std::string public_key_;
};

// A secret as it is told to the other rank of `shared`, and, done again, as it was. One `shared` is for
// one secret.
std::string hidden(const Secret& shared, const Secret& secret);
// `told` has kSecretBytes.
Secret shown(const Secret& shared, std::string_view told);

}  // namespace nezha::wire
