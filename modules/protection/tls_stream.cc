#include "protection/tls_stream.h"

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <span>
#include <vector>

#include "base/crypto_use.h"
#include "protection/record_stream.h"

namespace nezha::transport {
namespace {

constexpr std::string_view kIdentity = "nezha1";
constexpr std::array<unsigned char, 2> kAes128GcmSha256 = {0x13, 0x01};
constexpr size_t kRecordBytes = 16 * 1024;
// So many bytes are sealed before the network is asked to take them. With one more record, they are
// all that can wait in this process.
constexpr size_t kBatchBytes = 64 * 1024;
constexpr size_t kReadBytes = 64 * 1024;
// The most bytes that may wait to leave: a peer can make OpenSSL answer it, and may not read the
// answers.
constexpr size_t kUnsentBytesMax = 256 * 1024;

std::string openssl_reason() {
  const unsigned long number = ERR_peek_last_error();
  const char* const text = number == 0 ? nullptr : ERR_reason_error_string(number);
  ERR_clear_error();
  return text == nullptr ? "no reason given" : text;
}

// The job's key in the form in which TLS 1.3 takes a key from outside; null when memory is short.
SSL_SESSION* session_of(SSL* ssl) {
  const auto* key = static_cast<const TlsKey*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  const SSL_CIPHER* const cipher = SSL_CIPHER_find(ssl, kAes128GcmSha256.data());
  SSL_SESSION* const session = SSL_SESSION_new();
  const auto* psk = reinterpret_cast<const unsigned char*>(key->psk().data());
  if (cipher != nullptr && session != nullptr &&
      SSL_SESSION_set1_master_key(session, psk, key->psk().size()) == 1 &&
      SSL_SESSION_set_cipher(session, cipher) == 1 &&
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1) {
    return session;
  }
  SSL_SESSION_free(session);
  return nullptr;
}

int offer_key(SSL* ssl, const EVP_MD*, const unsigned char** identity, size_t* length,
              SSL_SESSION** session) {
  *identity = reinterpret_cast<const unsigned char*>(kIdentity.data());
  *length = kIdentity.size();
  *session = session_of(ssl);
  return *session != nullptr ? 1 : 0;
}

int find_key(SSL* ssl, const unsigned char* identity, size_t length, SSL_SESSION** session) {
  const std::string_view asked(reinterpret_cast<const char*>(identity), length);
  *session = asked == kIdentity ? session_of(ssl) : nullptr;
  return 1;
}

struct FreeSsl {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};

class TlsStream final : public RecordStream {
 public:
  TlsStream(std::shared_ptr<const TlsKey> key, Descriptor fd, SSL* ssl, bool dialer);
  Status start();

  ssize_t send(const iovec* pieces, size_t count) override;
  ssize_t receive(const iovec* pieces, size_t count, Source source) override;
  bool has_buffered_input() const override { return in_begin_ < in_end_ || SSL_pending(ssl_.get()) > 0; }
  bool is_open() const override { return open_; }
  bool is_peer_plain() const override {
    return wire::is_ours(std::as_bytes(std::span(first_).first(first_size_)));
  }
  void begin_bulk() override { in_.resize(kReadBytes); }

 private:
  static BIO_METHOD* bio_method();
  static TlsStream& of(BIO* bio) { return *static_cast<TlsStream*>(BIO_get_data(bio)); }
  static int bio_write(BIO* bio, const char* bytes, int size);
  static int bio_read(BIO* bio, char* bytes, int size);
  static long bio_control(BIO* bio, int command, long, void*);

  // Holds bytes that OpenSSL sends, until the socket takes them.
  int hold(const char* bytes, int size);
  // Gives OpenSSL bytes that have arrived; 0 when there are none (errno says why, or closed_).
  int give(char* bytes, int size);
  bool negotiate();
  void forget_key();
  // To be called after a call of OpenSSL that did not succeed: sets errno. False for the end of the
  // connection.
  bool set_error(int result, const char* doing);
  bool seal(std::span<const std::byte> payload);

  const std::shared_ptr<const TlsKey> key_;
  const std::unique_ptr<SSL, FreeSsl> ssl_;
  const bool dialer_;
  bool open_ = false;
  std::array<char, 4> first_{};  // the first bytes of the connection
  size_t first_size_ = 0;
  size_t handshake_bytes_ = 0;

  std::vector<std::byte> record_;  // small pieces that become one record
  uint64_t records_ = 0;           // sealed with the present keys

  std::vector<std::byte> in_;   // empty until `begin_bulk`
  size_t in_begin_ = 0;
  size_t in_end_ = 0;
};

TlsStream::TlsStream(std::shared_ptr<const TlsKey> key, Descriptor fd, SSL* ssl, bool dialer)
    : RecordStream(std::move(fd)), key_(std::move(key)), ssl_(ssl), dialer_(dialer) {}

Status TlsStream::start() {
  BIO_METHOD* const method = bio_method();
  BIO* const bio = method == nullptr ? nullptr : BIO_new(method);
  if (bio == nullptr) return error(Code::exhausted, "OpenSSL: %s", openssl_reason().c_str());
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);
  dialer_ ? SSL_set_connect_state(ssl_.get()) : SSL_set_accept_state(ssl_.get());
  // No certificates are used: one that the peer shows proves nothing.
  if (dialer_) SSL_set_verify(ssl_.get(), SSL_VERIFY_PEER, nullptr);
  return Status::ok();
}

// ---------------------------------------------------------------------- between OpenSSL and the socket

BIO_METHOD* TlsStream::bio_method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "nezha");
    if (made == nullptr) return made;
    BIO_meth_set_write(made, bio_write);
    BIO_meth_set_read(made, bio_read);
    BIO_meth_set_ctrl(made, bio_control);
    return made;
  }();
  return method;
}

long TlsStream::bio_control(BIO* bio, int command, long, void*) {
  if (command == BIO_CTRL_EOF) return of(bio).closed_ ? 1 : 0;
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

// OpenSSL is C: nothing may be thrown through it.
int TlsStream::bio_write(BIO* bio, const char* bytes, int size) {
  TlsStream& stream = of(bio);
  try {
    return stream.hold(bytes, size);
  } catch (const std::bad_alloc&) {
    stream.broken_ = ENOMEM;
    return -1;
  }
}

int TlsStream::bio_read(BIO* bio, char* bytes, int size) {
  BIO_clear_retry_flags(bio);
  TlsStream& stream = of(bio);
  int given = 0;
  try {
    if (size > 0) given = stream.give(bytes, size);
  } catch (const std::bad_alloc&) {
    stream.broken_ = ENOMEM;
  }
  if (given > 0) return given;
  if (stream.closed_) return 0;
  if (stream.broken_ == 0) BIO_set_retry_read(bio);
  return -1;
}

int TlsStream::hold(const char* bytes, int size) {
  const auto more = static_cast<size_t>(std::max(size, 0));
  if (unsent_ + more > kUnsentBytesMax) {
    break_off(EPROTO, "the peer asks for answers and does not read them");
    return -1;
  }
  append({reinterpret_cast<const std::byte*>(bytes), more});
  return size;
}

int TlsStream::give(char* bytes, int size) {
  const auto wanted = static_cast<size_t>(size);
  if (in_.empty()) {
    // Reads no byte beyond the present record: what follows may be meant for somebody else.
    const size_t room = open_ ? wanted : std::min(wanted, TlsKey::kHandshakeBytesMax - handshake_bytes_);
    if (room == 0) return break_off(EPROTO, "the other end sent more bytes than a TLS handshake has"), 0;
    const ssize_t got = read_network(bytes, room);
    if (got <= 0) return 0;
    if (!open_) handshake_bytes_ += static_cast<size_t>(got);
    const size_t keep = std::min(static_cast<size_t>(got), first_.size() - first_size_);
    std::copy_n(bytes, keep, first_.data() + first_size_);
    first_size_ += keep;
    return static_cast<int>(got);
  }
  if (in_begin_ == in_end_) {
    const ssize_t got = read_network(in_.data(), in_.size());
    if (got <= 0) return 0;
    in_begin_ = 0;
    in_end_ = static_cast<size_t>(got);
    // The network has no more bytes: this saves the call that would say so.
    if (in_end_ < in_.size()) reads_left_ = 0;
  }
  const size_t part = std::min(wanted, in_end_ - in_begin_);
  std::memcpy(bytes, in_.data() + in_begin_, part);
  in_begin_ += part;
  return static_cast<int>(part);
}

// ------------------------------------------------------------------------------------------- outcomes

bool TlsStream::set_error(int result, const char* doing) {
  const int kind = SSL_get_error(ssl_.get(), result);
  // No error stays in OpenSSL's queue for others who use OpenSSL in this thread.
  std::string reason;
  if (kind == SSL_ERROR_SSL) reason = openssl_reason();
  if (broken_ != 0) {
    errno = broken_;
    return true;
  }
  if (closed_ || kind == SSL_ERROR_ZERO_RETURN) {
    closed_ = true;
    return false;
  }
  if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE) {
    errno = EAGAIN;
    return true;
  }
  break_off(EPROTO, std::string(doing) + ": " + (reason.empty() ? "no reason given" : reason));
  return true;
}

bool TlsStream::negotiate() {
  if (broken_ != 0) return break_off(broken_, "");
  const CryptoUse use;
  ERR_clear_error();
  begin_reading(Source::network);
  const int result = SSL_do_handshake(ssl_.get());
  if (result == 1) {
    // A peer that has not proved the key is not believed, whatever certificate it shows.
    if (SSL_session_reused(ssl_.get()) != 1) {
      return break_off(EPROTO, "the TLS handshake was answered without the job's key");
    }
    open_ = true;
    forget_key();
    push();
    if (broken_ != 0) errno = broken_;
    return broken_ == 0;
  }
  if (!set_error(result, "the TLS handshake failed, because the two sides hold different secrets or "
                         "one of them is not of this job")) {
    errno = EPIPE;
    return false;
  }
  if (is_peer_plain()) {
    unsent_ = 0;
    broken_ = EPROTO;
    text_ = wire::reason_of(wire::Refusal::needs_tls);
  }
  // The last bytes may tell the peer why this side refuses.
  push();
  errno = broken_ != 0 ? broken_ : EAGAIN;
  return false;
}

// OpenSSL keeps the key in its session, in memory that core dumps contain, and needs it only for
// session tickets, which are not used.
void TlsStream::forget_key() {
  static constexpr std::array<unsigned char, kSecretBytes> kNothing{};
  SSL_SESSION_set1_master_key(SSL_get_session(ssl_.get()), kNothing.data(), kNothing.size());
}

// ---------------------------------------------------------------------------------------- the two calls

bool TlsStream::seal(std::span<const std::byte> payload) {
  if (++records_ > key_->records_per_key()) {
    records_ = 1;
    if (SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1) {
      return break_off(EPROTO, "cannot renew the keys: " + openssl_reason());
    }
  }
  size_t written = 0;
  const int result = SSL_write_ex(ssl_.get(), payload.data(), payload.size(), &written);
  if (result == 1 && written == payload.size()) return true;
  if (!set_error(result, "cannot encrypt")) errno = EPIPE;
  // `hold` takes all that it is given, so waiting would never end.
  return errno == EAGAIN ? break_off(EPROTO, "cannot encrypt") : false;
}

ssize_t TlsStream::send(const iovec* pieces, size_t count) {
  if (!open_ && !negotiate()) return -1;
  if (broken_ != 0) return break_off(broken_, ""), -1;
  if (!push()) return -1;
  ERR_clear_error();
  record_.resize(kRecordBytes);
  const iovec* const end = pieces + count;
  size_t skip = 0;  // of the present piece
  size_t taken = 0;
  const auto forward = [&](size_t bytes) {
    skip += bytes;
    while (pieces != end && skip == pieces->iov_len) ++pieces, skip = 0;
  };
  forward(0);
  while (pieces != end && unsent_ == 0) {
    while (pieces != end && unsent_ < kBatchBytes) {
      const std::byte* bytes = static_cast<const std::byte*>(pieces->iov_base) + skip;
      size_t size = std::min(pieces->iov_len - skip, kRecordBytes);
      if (size == kRecordBytes) {
        forward(size);
      } else {
        // Small pieces share a record.
        size = 0;
        while (pieces != end && size < kRecordBytes) {
          const size_t part = std::min(pieces->iov_len - skip, kRecordBytes - size);
          std::memcpy(record_.data() + size, static_cast<const std::byte*>(pieces->iov_base) + skip,
                      part);
          size += part;
          forward(part);
        }
        bytes = record_.data();
      }
      if (!seal({bytes, size})) return -1;
      taken += size;
    }
    if (!push() && errno != EAGAIN) return -1;
  }
  return static_cast<ssize_t>(taken);
}

ssize_t TlsStream::receive(const iovec* pieces, size_t count, Source source) {
  if (!open_ && !negotiate()) return closed_ && broken_ == 0 ? 0 : -1;
  ERR_clear_error();
  begin_reading(source);
  size_t total = 0;
  int result = 1;
  for (size_t i = 0; i < count && result == 1; ++i) {
    size_t done = 0;
    while (done < pieces[i].iov_len) {
      size_t got = 0;
      result = SSL_read_ex(ssl_.get(), static_cast<std::byte*>(pieces[i].iov_base) + done,
                           pieces[i].iov_len - done, &got);
      if (result != 1) break;
      done += got;
    }
    total += done;
  }
  if (result == 1) return static_cast<ssize_t>(total);
  const bool failed = set_error(result, "received data was changed in transit, or is not TLS");
  // The reason why there are no more bytes stops the next call, too, which returns it.
  if (total > 0) return static_cast<ssize_t>(total);
  return failed ? -1 : 0;
}

}  // namespace

// ----------------------------------------------------------------------------------------------- TlsKey

std::shared_ptr<const TlsKey> TlsKey::create(const wire::Secret& secret, uint64_t records_per_key) {
  return std::shared_ptr<const TlsKey>(new TlsKey(secret, records_per_key));
}

TlsKey::TlsKey(const wire::Secret& secret, uint64_t records_per_key)
    : psk_(wire::tls_key_of(secret)), records_per_key_(records_per_key) {
  const CryptoUse use;
  ERR_clear_error();
  context_ = SSL_CTX_new(TLS_method());
  const bool made = context_ != nullptr &&
                    SSL_CTX_set_min_proto_version(context_, TLS1_3_VERSION) == 1 &&
                    SSL_CTX_set_max_proto_version(context_, TLS1_3_VERSION) == 1 &&
                    SSL_CTX_set_ciphersuites(context_, "TLS_AES_128_GCM_SHA256") == 1;
  if (!made) {
    refusal_ = openssl_reason();
    SSL_CTX_free(context_);
    context_ = nullptr;
    return;
  }
  SSL_CTX_set_app_data(context_, this);
  SSL_CTX_set_psk_use_session_callback(context_, offer_key);
  SSL_CTX_set_psk_find_session_callback(context_, find_key);
  SSL_CTX_set_session_cache_mode(context_, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context_, 0);
  SSL_CTX_set_options(context_, SSL_OP_NO_TICKET);
  SSL_CTX_clear_options(context_, SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
}

TlsKey::~TlsKey() { SSL_CTX_free(context_); }

Result<std::unique_ptr<TcpStream>> TlsKey::open(Descriptor& fd, bool dialer) const {
  if (context_ == nullptr) {
    return error(Code::unsupported, "tls=on, and OpenSSL offers no TLS 1.3 with AES-128-GCM here: %s",
                 refusal_.c_str());
  }
  const CryptoUse use;
  ERR_clear_error();
  SSL* const ssl = SSL_new(context_);
  if (ssl == nullptr) return error(Code::exhausted, "OpenSSL: %s", openssl_reason().c_str());
  const int number = fd.get();
  auto stream = std::make_unique<TlsStream>(shared_from_this(), Descriptor(number), ssl, dialer);
  if (const Status started = stream->start(); !started) {
    (void)stream->release_fd();
    return started;
  }
  (void)fd.release();
  return std::unique_ptr<TcpStream>(std::move(stream));
}

}  // namespace nezha::transport
