// TlsKey: what the encrypted connections of one job share, and the maker of their streams.
//
// Contract: immutable, any thread; outlives no stream's need of it (streams hold the key themselves).
// TLS 1.3 with a pre-shared key made of the job's secret and a fresh Diffie-Hellman exchange for each
// connection, so that who learns the secret later cannot read what was recorded. No certificates: a
// side that does not prove the key is refused. Who of the job's ranks is at the other end is
// the business of the handshake inside (handshake.h).
//
//   Strangers  a stream that is not open reads at most kHandshakeBytesMax.
//   Memory     ciphertext in either direction is bounded (kBatchBytes and one record out, kReadBytes in).
//   Keys       are renewed after `records_per_key` records: AES-GCM must not seal too many with one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "transport/connect/stream_protection.h"
#include "wire/handshake.h"

struct ssl_ctx_st;

namespace nezha::transport {

class TlsKey final : public StreamKey, public std::enable_shared_from_this<TlsKey> {
 public:
  // RFC 8446, 5.5, allows 2^24.5 records of full size.
  static constexpr uint64_t kRecordsPerKey = uint64_t{1} << 23;
  static constexpr size_t kHandshakeBytesMax = 4096;

  static std::shared_ptr<const TlsKey> create(const wire::Secret& secret,
                                              uint64_t records_per_key = kRecordsPerKey);
  ~TlsKey() override;
  TlsKey(const TlsKey&) = delete;
  TlsKey& operator=(const TlsKey&) = delete;

  // `unsupported` when OpenSSL does not offer TLS 1.3 here (the socket is kept).
  Result<std::unique_ptr<TcpStream>> open(Descriptor& fd, bool dialer) const override;

  const wire::Secret& psk() const { return psk_; }
  uint64_t records_per_key() const { return records_per_key_; }

 private:
  TlsKey(const wire::Secret& secret, uint64_t records_per_key);

  const wire::Secret psk_;
  const uint64_t records_per_key_;
  ssl_ctx_st* context_ = nullptr;  // null: OpenSSL refused, and `refusal_` says why
  std::string refusal_;
};

}  // namespace nezha::transport
