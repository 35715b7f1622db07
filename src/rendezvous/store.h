// Store: the key/value meeting point, the only thing that works before connections exist.
//
// Contract: keys are 1 to kKeyBytesMax bytes with their prefix and without NUL; values are opaque
// blobs of at most kValueBytesMax, wiped where the library had them: there may be a secret in one. Every
// call takes an absolute deadline of system_clock() and
// returns `timed_out` naming the key and the store when it passes; a store that is gone is
// `peer_lost`, one that is full `exhausted`, one that serves another job `mismatch`. One Store
// object may be used by several threads. Keys of one job share a prefix that the launcher makes
// unique; what a job leaves in a store that outlives it expires: in files after a day, in Redis after its
// `ttl`, an hour unless the address says otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/hidden_text.h"
#include "base/status.h"
#include "rendezvous/store_proof.h"

namespace nezha::rendezvous {

inline constexpr size_t kKeyBytesMax = 512;
inline constexpr size_t kValueBytesMax = 1024 * 1024;

class Store {
 public:
  virtual ~Store() = default;

  // Writes, replacing what was there.
  virtual Status set(std::string_view key, std::string_view value, Nanoseconds deadline) = 0;
  // Waits until the key exists, then returns its value.
  virtual Result<WipedText> get(std::string_view key, Nanoseconds deadline) = 0;
  // Writes only if the key is absent, atomically among all clients. Returns the value that the key
  // has afterwards: equal to `value` for the one who won (make values unique to tell).
  virtual Result<WipedText> set_if_absent(std::string_view key, std::string_view value,
                                          Nanoseconds deadline) = 0;
  virtual Status remove(std::string_view key, Nanoseconds deadline) = 0;

  // "tcp://10.0.0.1:29500", for messages.
  virtual std::string describe() const = 0;
  // Then keys of earlier jobs may be in it.
  virtual bool outlives_job() const { return false; }
};

// The caller's own store, through four functions (torch.distributed, mpi4py, tests).
struct StoreCallbacks {
  void* user = nullptr;
  // Each returns 0 on success, a Code otherwise. `get` waits up to `timeout_s`; the value is copied
  // into `value` (capacity *size), its length returned in *size. May be called by several threads
  // at once.
  int (*set)(void* user, const char* key, const void* value, size_t size,
             double timeout_s) = nullptr;
  int (*get)(void* user, const char* key, void* value, size_t* size, double timeout_s) = nullptr;
  int (*set_if_absent)(void* user, const char* key, const void* value, size_t size, void* winner,
                       size_t* winner_size, double timeout_s) = nullptr;
  int (*remove)(void* user, const char* key, double timeout_s) = nullptr;
};

// Opens a store by address:
//   tcp://HOST:PORT            embedded server; the rank with `serve` listens, all connect. Port 0
//                              with `serve`: any free port, which describe() then tells
//   file:///DIRECTORY          a directory that every rank sees
//   redis://[USER:PASSWORD@]HOST[:PORT][/DB] and others of Redis: in the module redis (store_module.h)
//   hash://NAME                this process only: ranks that are threads, tests
// `invalid_argument` for anything else, `unsupported` when the module is not there.
struct OpenOptions {
  bool serve = false;         // tcp: start the server in this process
  size_t clients = 0;         // tcp: how many the server expects
  std::string prefix;         // put in front of every key
  std::optional<StoreKey> key;         // tcp: what both sides prove to have before a key is served
  Nanoseconds deadline = kNever;
  Nanoseconds patience = 5 * kSecond;  // redis: how long a server that is gone may take to come back
};
Result<std::unique_ptr<Store>> open_store(std::string_view address, const OpenOptions& options);
std::unique_ptr<Store> open_callback_store(const StoreCallbacks& callbacks, std::string prefix);

}  // namespace nezha::rendezvous
