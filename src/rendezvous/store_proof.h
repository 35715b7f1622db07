// StoreProof: how the TCP store's server and its clients show each other that they belong to one job.
//
// Contract: pure except for the random numbers; any thread. HMAC-SHA256 (base/hmac.h) with a key that
// is derived from the job's secret and opens nothing else, over who speaks and fresh numbers of
// both sides, so that nothing that was said before, or by the other side, is a proof. The client proves
// first: whoever cannot hears nothing but the server's number.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/hmac.h"
#include "base/secret.h"
#include "base/status.h"

namespace nezha::rendezvous {

using StoreKey = Secret;

inline constexpr size_t kStoreNonceBytes = 16;
inline constexpr size_t kStoreMacBytes = kMacBytes;

// `exhausted` when the operating system gives none.
Result<std::string> fresh_store_nonce();

enum class StoreSide : uint8_t { client, server };
// kStoreMacBytes long.
std::string store_mac_of(const StoreKey& key, StoreSide speaker, std::string_view server_nonce,
                         std::string_view client_nonce);
// Constant-time.
bool same_store_mac(std::string_view expected, std::string_view received);

}  // namespace nezha::rendezvous
