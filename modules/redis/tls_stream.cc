// TLS over a non-blocking socket: OpenSSL works on two buffers in memory, and the socket is read
// and written by the calls of rendezvous/socket.h, so deadlines hold and no write raises SIGPIPE.
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/crypto_use.h"
#include "base/log.h"
#include "base/socket_address.h"
#include "redis/stream.h"
#include "rendezvous/waiting.h"

namespace nezha::rendezvous {
namespace {

constexpr size_t kReadBytes = 16 * 1024;
// A server that does not speak TLS may wait for the end of a line that never comes.
constexpr Nanoseconds kHandshakeWait = 3 * kSecond;

using ContextOwner = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;
using SslOwner = std::unique_ptr<SSL, decltype(&SSL_free)>;

// The first reason in OpenSSL's queue, which this empties.
std::string openssl_reason() {
  const unsigned long number = ERR_get_error();
  ERR_clear_error();
  if (number == 0) return "";
  const char* text = ERR_reason_error_string(number);
  return text != nullptr ? text : "TLS error " + std::to_string(number);
}

Status unusable(const char* what, const std::string& file) {
  const std::string reason = openssl_reason();
  return error(Code::invalid_argument, "cannot use the %s '%s': %s", what, file.c_str(),
               reason.empty() ? "no such PEM file" : reason.c_str());
}

// A key that needs a pass phrase is an error: OpenSSL would ask for it at the terminal.
int no_pass_phrase(char*, int, int, void*) { return 0; }

Status load_files(SSL_CTX* context, const TlsOptions& options) {
  SSL_CTX_set_default_passwd_cb(context, &no_pass_phrase);
  if (options.insecure) {
    SSL_CTX_set_verify(context, SSL_VERIFY_NONE, nullptr);
  } else {
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    if (options.ca.empty()) {
      SSL_CTX_set_default_verify_paths(context);
    } else if (SSL_CTX_load_verify_locations(context, options.ca.c_str(), nullptr) != 1) {
      return unusable("CA file", options.ca);
    }
  }
  if (options.certificate.empty()) return Status::ok();
  if (SSL_CTX_use_certificate_chain_file(context, options.certificate.c_str()) != 1) {
    return unusable("certificate", options.certificate);
  }
  if (SSL_CTX_use_PrivateKey_file(context, options.key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context) != 1) {
    return unusable("private key", options.key);
  }
  return Status::ok();
}

// Sets the name or address that the server's certificate must be for. A name is also sent to the
// server (SNI), which chooses its certificate by it.
void expect_host(SSL* ssl, const std::string& host) {
  if (parse_socket_address(host, 0)) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str());
  } else {
    SSL_set1_host(ssl, host.c_str());
    SSL_set_tlsext_host_name(ssl, host.c_str());
  }
}

class TlsStream final : public Stream {
 public:
  TlsStream(Descriptor socket, SslOwner ssl)
      : socket_(std::move(socket)), ssl_(std::move(ssl)) {
    SSL_set_bio(ssl_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(ssl_.get());
  }

  Transfer shake_hands(Nanoseconds deadline) {
    return run([&] { return SSL_do_handshake(ssl_.get()); }, deadline);
  }
  Transfer send(std::string_view bytes, Nanoseconds deadline) override {
    return run([&] { return SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())); },
               deadline);
  }
  Transfer receive(char* at, size_t* size, Nanoseconds deadline) override {
    int got = 0;
    const Transfer transfer = run(
        [&] { return got = SSL_read(ssl_.get(), at, static_cast<int>(*size)); }, deadline);
    if (transfer == Transfer::done) *size = static_cast<size_t>(got);
    return transfer;
  }
  bool quiet() const override { return true; }
  std::string why() const override { return why_; }
  bool heard_anything() const { return heard_anything_; }
  // Why the server's certificate is not trusted; "" when the handshake failed for another reason.
  std::string distrust() const {
    const long result = SSL_get_verify_result(ssl_.get());
    const bool checked = SSL_get_verify_mode(ssl_.get()) != SSL_VERIFY_NONE;
    return !checked || result == X509_V_OK ? "" : X509_verify_cert_error_string(result);
  }

 private:
  // Calls `step` once: its result, and what OpenSSL needs next (SSL_get_error).
  template <class Step>
  std::pair<int, int> once(Step&& step) {
    const CryptoUse use;
    ERR_clear_error();
    const int result = step();
    const int need = SSL_get_error(ssl_.get(), result);
    if (need == SSL_ERROR_SSL) why_ = openssl_reason();
    return {result, need};
  }

  // Repeats `step` until it has succeeded, and gives it the bytes that it needs from the socket.
  template <class Step>
  Transfer run(Step&& step, Nanoseconds deadline) {
    for (;;) {
      const auto [result, need] = once(step);
      if (const Transfer sent = flush(deadline); sent != Transfer::done) return sent;
      if (result > 0) return Transfer::done;
      if (need != SSL_ERROR_WANT_READ) return Transfer::lost;
      std::array<char, kReadBytes> buffer;
      size_t got = buffer.size();
      errno = 0;
      const Transfer received = receive_some(socket_, buffer.data(), &got, deadline);
      if (received == Transfer::lost && errno != 0) why_ = std::strerror(errno);
      if (received != Transfer::done) return received;
      heard_anything_ = true;
      BIO_write(SSL_get_rbio(ssl_.get()), buffer.data(), static_cast<int>(got));
    }
  }

  Transfer flush(Nanoseconds deadline) {
    char* bytes = nullptr;
    BIO* out = SSL_get_wbio(ssl_.get());
    const long size = BIO_get_mem_data(out, &bytes);
    if (size <= 0) return Transfer::done;
    const Transfer sent = send_all(socket_, {bytes, static_cast<size_t>(size)}, deadline);
    BIO_reset(out);
    return sent;
  }

  const Descriptor socket_;
  const SslOwner ssl_;
  std::string why_;
  bool heard_anything_ = false;
};

Status handshake_failure(const TlsStream& stream, Transfer transfer, const std::string& host,
                         Nanoseconds deadline) {
  if (const std::string distrust = stream.distrust(); !distrust.empty()) {
    return error(Code::invalid_argument,
                 "the server's certificate is not trusted for '%s': %s; name its authority with "
                 "?ca=FILE, or use the name that the certificate is for",
                 host.c_str(), distrust.c_str());
  }
  if (transfer == Transfer::timed_out && expired(deadline)) {
    return {Code::timed_out, "no end of the TLS handshake before the deadline"};
  }
  constexpr const char* kPlain = "is this the port for TLS? Without TLS the address is redis://";
  const std::string why = stream.why();
  if (transfer == Transfer::timed_out || why == "wrong version number" ||
      why == "packet length too long" || (why.empty() && !stream.heard_anything())) {
    return error(Code::unsupported, "the server does not answer in TLS; %s", kPlain);
  }
  return {Code::peer_lost, "the TLS handshake failed: " +
                               (why.empty() ? std::string("the server ended the connection") : why)};
}

Result<SslOwner> prepared(const std::string& host, const TlsOptions& options) {
  const CryptoUse use;
  ERR_clear_error();
  const ContextOwner context(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free);
  if (!context) return Status(Code::exhausted, "TLS cannot be set up: " + openssl_reason());
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  NEZHA_RETURN_IF_ERROR(load_files(context.get(), options));
  SslOwner ssl(SSL_new(context.get()), &SSL_free);
  if (!ssl) return Status(Code::exhausted, "TLS cannot be set up: " + openssl_reason());
  expect_host(ssl.get(), host);
  return ssl;
}

}  // namespace

Result<std::unique_ptr<Stream>> tls_stream(Descriptor socket, const std::string& host,
                                           const TlsOptions& options, Nanoseconds deadline) {
  auto ssl = prepared(host, options);
  if (!ssl) return ssl.status();
  if (options.insecure) {
    NEZHA_LOG(warn, "store", "the certificate of %s is not checked (insecure=1)", host.c_str());
  }
  auto stream = std::make_unique<TlsStream>(std::move(socket), std::move(*ssl));
  const Nanoseconds until = system_clock().now() + remaining(deadline, kHandshakeWait);
  const Transfer transfer = stream->shake_hands(until);
  if (transfer != Transfer::done) return handshake_failure(*stream, transfer, host, deadline);
  return std::unique_ptr<Stream>(std::move(stream));
}

}  // namespace nezha::rendezvous
