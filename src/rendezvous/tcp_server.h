// TcpServer: the TCP store's server, one thread inside the process of the rank that serves.
//
// Contract: serves from start() until destroyed, on the given host's address only. With a key it serves
// those who prove that they have it, and proves that it has it, too (store_proof.h). Strangers are
// dropped: wrong magic or proof at once, none within kGreetingTime, no first request kFirstRequestTime
// after that, a request that stops half-way or an answer that is not taken after kRequestTime. When all
// `places` are taken, or the three quarters of them that one address may have, the oldest connection
// that has neither proved itself nor made a request makes room; others keep their place, however long
// they wait for a key. All clients together hold at most `memory_bytes`.
// Destroying it delivers answers already given, for at most kFarewellTime, and closes everything:
// clients that wait get an error at once. Any thread may start and destroy it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "rendezvous/store_proof.h"

namespace nezha::rendezvous {

inline constexpr size_t kClientsMax = 4096;
inline constexpr size_t kServerMemoryBytes = 256 * 1024 * 1024;
inline constexpr Nanoseconds kGreetingTime = 2 * kSecond;
inline constexpr Nanoseconds kFirstRequestTime = 5 * kSecond;
inline constexpr Nanoseconds kRequestTime = 30 * kSecond;
inline constexpr Nanoseconds kFarewellTime = kSecond;

class TcpServer {
 public:
  // Requests for keys without the prefix are another job's and answered with `mismatch`; the prefix is
  // told to nobody.
  static Result<std::unique_ptr<TcpServer>> start(const std::string& host, uint16_t port,
                                                  size_t memory_bytes = kServerMemoryBytes,
                                                  std::string prefix = "",
                                                  std::optional<StoreKey> key = std::nullopt,
                                                  size_t places = kClientsMax);
  virtual ~TcpServer() = default;
  // The port it listens on: the given one, or the one the system chose for 0.
  virtual uint16_t port() const = 0;
};

}  // namespace nezha::rendezvous
