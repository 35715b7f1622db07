// Encrypted and authenticated rails: connections over them behave as those without, what was changed on
// the way ends them, nothing but TLS is on the wire of an encrypted one, and who does not hold the key,
// or does not encrypt, is refused with a reason.
#include <gtest/gtest.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "protection/authenticated_stream.h"
#include "protection/tls_stream.h"
#include "support/loop_suite.h"
#include "support/watchdog.h"
#include "support/tcp_connection.h"
#include "transport/connect/handshake.h"
#include "transport/tcp/tcp_opener.h"

namespace nezha::transport {
namespace {

constexpr int kTurnsMax = 200'000;  // of a loop that never sleeps; far more than any test needs

std::pair<Descriptor, Descriptor> socket_pair(int buffer_bytes = 0) {
  int ends[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  for (const int end : ends) {
    if (buffer_bytes == 0) continue;
    setsockopt(end, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof(buffer_bytes));
  }
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

std::shared_ptr<const TlsKey> key_of(const char* text, uint64_t records = TlsKey::kRecordsPerKey) {
  return TlsKey::create(wire::secret_from_text(text), records);
}

// Makes the stream of a socket, of the side that dials or the other.
using Opener = std::function<std::unique_ptr<TcpStream>(Descriptor, bool dialer)>;

std::unique_ptr<TcpStream> plain(Descriptor fd, bool) { return TcpStream::plain(std::move(fd)); }

Opener encrypted(uint64_t records = TlsKey::kRecordsPerKey) {
  return [key = key_of("job", records)](Descriptor fd, bool dialer) {
    auto made = key->open(fd, dialer);
    EXPECT_TRUE(made.is_ok()) << made.status().to_string();
    return std::move(*made);
  };
}

std::unique_ptr<TcpStream> authenticated(Descriptor fd, bool dialer) {
  const wire::Secret job = wire::secret_from_text("job");
  const wire::Secret keys = wire::integrity_keys_of(job, wire::Hello(), wire::Nonce());
  auto made = open_authenticated(fd, keys, dialer);
  EXPECT_TRUE(made.is_ok()) << made.status().to_string();
  return std::move(*made);
}

// One turn of a stream that is being opened. False when it broke.
bool is_opening(TcpStream& stream) {
  std::byte none;
  const iovec piece{&none, 1};
  const ssize_t got = stream.receive(&piece, 1, TcpStream::Source::network);
  return got < 0 && errno == EAGAIN;
}

// Frames and what became of them.
struct Sink final : ConnectionEvents {
  std::deque<std::vector<std::byte>> payloads;
  size_t landed = 0;
  std::vector<WorkRequest*> released;
  bool down = false;
  Status why;

  Landing on_frame(Connection&, const wire::FrameHeader& header) override {
    Landing landing;
    landing.destination = payloads.emplace_back(header.length).data();
    return landing;
  }
  void on_landed(Connection& connection, const wire::FrameHeader&, const Landing&) override {
    ++landed;
    connection.acknowledge(0);
  }
  void on_released(Connection&, WorkRequest& request) override { released.push_back(&request); }
  void on_credit(Connection&, uint64_t, uint64_t) override {}
  uint64_t credit_to_tell(Connection&, uint64_t) override { return 0; }
  void on_failure(Connection&, const wire::FrameHeader&, const std::string&) override {}
  void on_control(Connection&, const wire::FrameHeader&, const std::string&) override {}
  void on_room(Connection&) override {}
  void on_down(Connection&, WorkQueue& unacknowledged, const Status& status, bool) override {
    down = true;
    why = status;
    unacknowledged = WorkQueue();
  }
};

struct Message {
  Message(uint64_t number, size_t size) : data(size) {
    for (size_t i = 0; i < size; ++i) data[i] = static_cast<std::byte>(number * 31 + i * 7 + i / 251);
    request.header.op_seq = number;
    request.header.length = static_cast<uint32_t>(size);
    request.data = data.data();
  }
  std::vector<std::byte> data;
  WorkRequest request;
};

// Two connections, with a wire between them that the test can read and change.
class Wired : public nezha::testing::LoopSuite {
 protected:
  void TearDown() override {
    left_.reset();
    right_.reset();
    LoopSuite::TearDown();
  }
  void connect(const Opener& open, bool with_wire, int buffer_bytes = 0) {
    auto [left_fd, left_wire] = socket_pair(buffer_bytes);
    Descriptor right_fd = std::move(left_wire);
    if (with_wire) {
      auto [wire, fd] = socket_pair(buffer_bytes);
      wires_[0] = std::move(right_fd);
      wires_[1] = std::move(wire);
      right_fd = std::move(fd);
    }
    auto left = open(std::move(left_fd), true);
    auto right = open(std::move(right_fd), false);
    for (int turn = 0; !left->is_open() || !right->is_open(); ++turn) {
      ASSERT_LT(turn, kTurnsMax);
      ASSERT_TRUE(is_opening(*left)) << left->explain(errno);
      pump();
      ASSERT_TRUE(is_opening(*right)) << right->explain(errno);
      pump();
    }
    left_ = nezha::testing::tcp_connection(*loop_, left_events_, std::move(left));
    right_ = nezha::testing::tcp_connection(*loop_, right_events_, std::move(right));
  }
  template <class Done>
  void drive(Done done) {
    for (int turn = 0; !done(); ++turn) {
      ASSERT_LT(turn, kTurnsMax) << left_events_.why.to_string() << right_events_.why.to_string();
      lock_->drive_once();
      pump();
    }
  }
  // Messages of all sizes there; acknowledgements come back.
  void exchange(std::deque<Message>& messages) {
    size_t posted = 0;
    drive([&] {
      while (posted < messages.size() && left_->post(messages[posted].request)) ++posted;
      left_->flush();
      return left_events_.released.size() == messages.size() || left_events_.down ||
             right_events_.down;
    });
    ASSERT_FALSE(left_events_.down) << left_events_.why.to_string();
    ASSERT_FALSE(right_events_.down) << right_events_.why.to_string();
    ASSERT_EQ(right_events_.landed, messages.size());
    for (size_t i = 0; i < messages.size(); ++i) {
      ASSERT_TRUE(right_events_.payloads[i] == messages[i].data) << "frame " << i;
    }
  }

  std::string heard_;  // from left to right
  std::function<void(std::string&)> tamper_;
  std::array<Descriptor, 2> wires_;
  Sink left_events_;
  Sink right_events_;
  std::unique_ptr<Connection> left_;
  std::unique_ptr<Connection> right_;

 private:
  // Carries what is on the wire.
  void pump() {
    if (!wires_[0]) return;
    for (const bool forth : {true, false}) {
      std::string bytes(65536, '\0');
      const ssize_t got = recv(wires_[forth ? 0 : 1].get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (got <= 0) continue;
      bytes.resize(static_cast<size_t>(got));
      if (forth) heard_ += bytes;
      if (forth && tamper_) tamper_(bytes);
      for (size_t at = 0; at < bytes.size();) {
        const ssize_t sent = send(wires_[forth ? 1 : 0].get(), bytes.data() + at, bytes.size() - at,
                                  MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) at += static_cast<size_t>(sent);
        if (sent < 0 && errno != EAGAIN) return;
        if (sent < 0) lock_->drive_once();
      }
    }
  }
  bool run(Nanoseconds) override {
    for (Connection* each : {left_.get(), right_.get()}) {
      if (each != nullptr && each->has_output()) each->flush();
    }
    return false;
  }
};

enum class Kind { plain, tls, tls_with_many_keys, authenticated };

class StreamKinds : public Wired, public ::testing::WithParamInterface<std::tuple<Kind, int>> {
 protected:
  void connect_as_told() {
    const auto [kind, buffer] = GetParam();
    switch (kind) {
      case Kind::plain: return connect(plain, false, buffer);
      case Kind::tls: return connect(encrypted(), false, buffer);
      case Kind::tls_with_many_keys: return connect(encrypted(3), false, buffer);
      case Kind::authenticated: return connect(authenticated, false, buffer);
    }
  }
};

TEST_P(StreamKinds, FramesOfEverySizeArriveInOrderAndAreReleased) {
  connect_as_told();
  std::deque<Message> messages;
  const size_t sizes[] = {0, 1, 63, 64, 65, 5000, 16383, 16384, 16385, 40'000, 300'000, 2, 3'000'000};
  for (uint64_t i = 0; i < 39; ++i) messages.emplace_back(i, sizes[i % std::size(sizes)]);
  exchange(messages);
  EXPECT_EQ(left_->in_flight_frames(), 0U);
  drive([&] { return !left_->has_output() && !right_->has_output(); });
}

// What is encrypted and held back has been taken: it comes back by `recall` all the same, arrives, and is
// not read again from its source.
TEST_P(StreamKinds, WhatIsHeldBackCountsAndNeedsItsSourceNoMore) {
  connect_as_told();
  Message big(1, 2'000'000);
  ASSERT_TRUE(left_->post(big.request));
  left_->flush();
  const uint64_t sent = left_->counters().bytes_sent;
  EXPECT_GT(sent, 0U);
  EXPECT_EQ(left_->queued_bytes() + sent, wire::kHeaderBytes + big.data.size());
  EXPECT_TRUE(left_->has_output());
  EXPECT_GT(left_->backlog_bytes(), left_->queued_bytes());
  const std::vector<std::byte> original = big.data;
  WorkQueue taken;
  left_->recall(taken);
  ASSERT_EQ(taken.pop_front(), &big.request);
  std::fill(big.data.begin(), big.data.end(), std::byte{0xEE});
  drive([&] { return right_events_.landed == 1 && !left_->has_output(); });
  EXPECT_TRUE(right_events_.payloads[0] == original);
  drive([&] { return !right_->has_output(); });
  EXPECT_TRUE(left_events_.released.empty());
  EXPECT_FALSE(left_events_.down);
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<Kind, int>>& at) {
  constexpr const char* kNames[] = {"plain", "tls", "tls_with_many_keys", "authenticated"};
  const auto [kind, buffer] = at.param;
  return std::string(kNames[static_cast<size_t>(kind)]) + (buffer != 0 ? "_narrow" : "");
}

INSTANTIATE_TEST_SUITE_P(All, StreamKinds,
                         ::testing::Combine(::testing::Values(Kind::plain, Kind::tls,
                                                              Kind::tls_with_many_keys,
                                                              Kind::authenticated),
                                            ::testing::Values(0, 4096)),
                         name_of);

TEST_F(Wired, ThePayloadIsNotOnTheWire) {
  for (const bool hidden : {false, true}) {
    heard_.clear();
    left_events_ = Sink(), right_events_ = Sink();
    connect(hidden ? encrypted() : plain, true);
    std::deque<Message> messages;
    messages.emplace_back(1, 100);
    messages.emplace_back(2, 100'000);
    exchange(messages);
    for (const Message& message : messages) {
      const std::string part(reinterpret_cast<const char*>(message.data.data()) + 20, 16);
      EXPECT_EQ(heard_.find(part) == std::string::npos, hidden);
    }
    const std::string magic("\x7FNZ", 3);
    EXPECT_EQ(heard_.substr(0, 3) == magic, !hidden);
    left_.reset();
    right_.reset();
  }
}

// A record that was changed, repeated or left out ends the connection, and nothing lands of it or of what
// comes behind it.
TEST_F(Wired, WhatWasChangedOnTheWayEndsTheConnection) {
  struct Change {
    std::function<void(std::string&)> of;  // two messages of one size, each in a record
    size_t lands;
  };
  const Change changes[] = {
      {[](std::string& bytes) { bytes.back() = static_cast<char>(bytes.back() ^ 1); }, 1},
      {[](std::string& bytes) { bytes[40] = static_cast<char>(bytes[40] ^ 0x40); }, 0},
      {[](std::string& bytes) { bytes[0] = static_cast<char>(bytes[0] ^ 1); }, 0},
      {[](std::string& bytes) { bytes += bytes; }, 2},
      {[](std::string& bytes) { bytes.erase(0, bytes.size() / 2); }, 0},
      {[](std::string& bytes) {
         bytes = bytes.substr(bytes.size() / 2) + bytes.substr(0, bytes.size() / 2);
       }, 0},
      {[](std::string& bytes) { bytes.assign("GET / HTTP/1.1\r\n\r\n"); }, 0},
  };
  for (const Opener& opener : {encrypted(), Opener(authenticated)}) {
    for (const Change& change : changes) {
      tamper_ = nullptr;
      left_events_ = Sink(), right_events_ = Sink();
      connect(opener, true);
      tamper_ = change.of;
      Message messages[] = {{7, 500}, {8, 500}};
      for (Message& message : messages) {
        ASSERT_TRUE(left_->post(message.request));
        left_->flush();
      }
      drive([&] { return right_events_.down; });
      EXPECT_NE(right_events_.why.message().find("changed in transit"), std::string::npos)
          << right_events_.why.to_string();
      EXPECT_EQ(right_events_.landed, change.lands);
      left_.reset();
      right_.reset();
    }
  }
}

// A connection that ends within a record, or after one, without a goodbye: only what is whole counts.
TEST_F(Wired, AnEndThatTheOtherSideDidNotSayIsALoss) {
  for (const auto& [whole, opener] : {std::pair{false, encrypted()}, {true, encrypted()},
                                      {false, Opener(authenticated)}, {true, Opener(authenticated)}}) {
    tamper_ = nullptr;
    left_events_ = Sink(), right_events_ = Sink();
    connect(opener, true);
    tamper_ = [whole = whole](std::string& bytes) {
      if (!whole) bytes.pop_back();
    };
    Message message(7, 500);
    ASSERT_TRUE(left_->post(message.request));
    left_->flush();
    drive([&, whole = whole] { return !heard_.empty() && (!whole || right_events_.landed == 1); });
    shutdown(wires_[1].get(), SHUT_WR);
    drive([&] { return right_events_.down; });
    EXPECT_EQ(right_events_.landed, whole ? 1U : 0U);
    EXPECT_EQ(right_events_.why.code(), Code::peer_lost);
    EXPECT_TRUE(whole || left_events_.released.empty());
    left_.reset();
    right_.reset();
    heard_.clear();
  }
}

// ---------------------------------------------------------------------------------------- the handshake

HandshakeIdentity identity(int rank, std::shared_ptr<const TlsKey> tls) {
  HandshakeIdentity me;
  me.rank = rank;
  me.world_size = 2;
  me.job = 77;
  me.secret = wire::secret_from_text("job");
  me.rail_counts = {1, 1};
  me.tls = std::move(tls);
  me.opener = &tcp_opener();
  return me;
}

void turn(Handshake& handshake) {
  if (handshake.has_failed()) return handshake.close();
  pollfd watched{handshake.fd(), handshake.poll_events(), 0};
  if (poll(&watched, 1, 0) > 0) handshake.on_poll(watched.revents, system_clock().now());
}

struct TwoHandshakes {
  TwoHandshakes(std::shared_ptr<const TlsKey> dialer_key, std::shared_ptr<const TlsKey> acceptor_key)
      : fds(socket_pair()),
        low(identity(0, std::move(dialer_key))),
        high(identity(1, std::move(acceptor_key))),
        dialer(low, std::move(fds.first), 1, 0, 0, 0, 0, 0, kNever),
        acceptor(high, std::move(fds.second), 0, 0) {}
  void run() {
    for (int i = 0; i < 10'000; ++i) {
      turn(dialer);
      turn(acceptor);
      if (dialer.state() == Handshake::State::tested) dialer.decide(true, 1);
    }
  }
  std::pair<Descriptor, Descriptor> fds;
  const HandshakeIdentity low;
  const HandshakeIdentity high;
  Handshake dialer;
  Handshake acceptor;
};

bool says(const Handshake& handshake, const char* words) {
  return handshake.reason().find(words) != std::string::npos;
}

TEST(TlsHandshake, TwoOfOneJobComeThrough) {
  TwoHandshakes handshakes(key_of("job"), key_of("job"));
  handshakes.run();
  EXPECT_EQ(handshakes.dialer.state(), Handshake::State::used) << handshakes.dialer.reason();
  EXPECT_EQ(handshakes.acceptor.state(), Handshake::State::used) << handshakes.acceptor.reason();
  EXPECT_TRUE(handshakes.acceptor.is_authenticated());
}

TEST(TlsHandshake, AnotherSecretIsRefusedOnBothSides) {
  TwoHandshakes handshakes(key_of("job"), key_of("another"));
  handshakes.run();
  for (const Handshake* handshake : {&handshakes.dialer, &handshakes.acceptor}) {
    EXPECT_TRUE(handshake->has_failed());
    EXPECT_FALSE(handshake->is_authenticated());
    EXPECT_TRUE(says(*handshake, "different secrets")) << handshake->reason();
  }
  EXPECT_EQ(handshakes.acceptor.state(), Handshake::State::refused);
}

TEST(TlsHandshake, WhoDoesNotEncryptHearsWhy) {
  TwoHandshakes handshakes(nullptr, key_of("job"));
  handshakes.run();
  EXPECT_TRUE(says(handshakes.dialer, "tls=on")) << handshakes.dialer.reason();
  EXPECT_TRUE(says(handshakes.acceptor, "tls=on")) << handshakes.acceptor.reason();
  EXPECT_EQ(handshakes.acceptor.state(), Handshake::State::refused);
}

TEST(TlsHandshake, WhoEncryptsTowardsOneWhoDoesNotHearsWhy) {
  TwoHandshakes handshakes(key_of("job"), nullptr);
  handshakes.run();
  EXPECT_TRUE(says(handshakes.dialer, "tls=off")) << handshakes.dialer.reason();
  EXPECT_TRUE(says(handshakes.acceptor, "tls=off")) << handshakes.acceptor.reason();
}

// Before the key is proved nobody is believed, and little is read.
TEST(TlsHandshake, StrangersAreReadForLittle) {
  const std::string long_hello("\x16\x03\x01\x40\x00\x01\x01\x00\x00\x03\x03", 11);  // of 64 KiB
  const std::string zeros(200'000, '\0');
  std::string records;
  for (int i = 0; i < 3000; ++i) records += std::string("\x16\x03\x01\x00\x01\x01", 6);
  const std::vector<std::string> all = {
      zeros,
      long_hello + zeros,
      records,
      std::string("\x80\x2E\x01\x03\x01") + zeros,
      "GET / HTTP/1.1\r\n\r\n",
      std::string("\x14\x03\x03\x00\x01\x01", 6) + zeros,
  };
  for (const std::string& words : all) {
    auto [mine, theirs] = socket_pair(1 << 20);
    const ssize_t said = send(theirs.get(), words.data(), words.size(), MSG_NOSIGNAL);
    ASSERT_EQ(said, static_cast<ssize_t>(words.size()));
    const HandshakeIdentity me = identity(1, key_of("job"));
    Handshake handshake(me, std::move(mine), 0, 0);
    for (int i = 0; i < 100 && !handshake.has_failed(); ++i) {
      handshake.on_poll(POLLIN | POLLOUT, 1000);
    }
    EXPECT_FALSE(handshake.is_authenticated());
    int unread = 0;
    ASSERT_EQ(ioctl(handshake.fd(), FIONREAD, &unread), 0);
    EXPECT_LE(words.size() - static_cast<size_t>(unread), TlsKey::kHandshakeBytesMax);
    handshake.on_time(kNever - 1);
    EXPECT_TRUE(handshake.has_failed());
  }
}

// A server with a certificate instead of the key.
class Impostor {
 public:
  Impostor()
      : context_(SSL_CTX_new(TLS_method())), key_(EVP_EC_gen("P-256")), certificate_(X509_new()) {
    ASN1_INTEGER_set(X509_get_serialNumber(certificate_), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate_), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate_), 3600);
    X509_set_pubkey(certificate_, key_);
    X509_sign(certificate_, key_, EVP_sha256());
    SSL_CTX_use_certificate(context_, certificate_);
    SSL_CTX_use_PrivateKey(context_, key_);
  }
  ~Impostor() {
    SSL_CTX_free(context_);
    EVP_PKEY_free(key_);
    X509_free(certificate_);
  }
  SSL_CTX* context() { return context_; }

 private:
  SSL_CTX* const context_;
  EVP_PKEY* const key_;
  X509* const certificate_;
};

// OpenSSL at the other end of a handshake; both take turns until the handshake has failed.
class Foreign {
 public:
  Foreign(SSL_CTX* context, Descriptor fd, bool dialer) : fd_(std::move(fd)), ssl_(SSL_new(context)) {
    SSL_set_fd(ssl_, fd_.get());
    dialer ? SSL_set_connect_state(ssl_) : SSL_set_accept_state(ssl_);
  }
  ~Foreign() { SSL_free(ssl_); }
  SSL* ssl() { return ssl_; }
  void meet(Handshake& handshake) {
    for (int i = 0; i < 1000 && !handshake.has_failed(); ++i) {
      turn(handshake);
      SSL_do_handshake(ssl_);
    }
    EXPECT_TRUE(handshake.has_failed());
    EXPECT_FALSE(handshake.is_authenticated());
    EXPECT_TRUE(says(handshake, "TLS handshake")) << handshake.reason();
  }

 private:
  Descriptor fd_;
  SSL* const ssl_;
};

TEST(TlsHandshake, ACertificateProvesNothing) {
  for (const int newest : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    Impostor impostor;
    SSL_CTX_set_max_proto_version(impostor.context(), newest);
    auto [mine, theirs] = socket_pair();
    const HandshakeIdentity me = identity(0, key_of("job"));
    Handshake handshake(me, std::move(mine), 1, 0, 0, 0, 0, 0, kNever);
    Foreign(impostor.context(), std::move(theirs), false).meet(handshake);
  }
}

TEST(TlsHandshake, AClientWithoutTheKeyIsRefused) {
  for (const int newest : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    Impostor impostor;
    SSL_CTX_set_max_proto_version(impostor.context(), newest);
    auto [mine, theirs] = socket_pair();
    const HandshakeIdentity me = identity(1, key_of("job"));
    Handshake handshake(me, std::move(mine), 0, 0);
    Foreign(impostor.context(), std::move(theirs), true).meet(handshake);
    EXPECT_EQ(handshake.state(), Handshake::State::refused);
  }
}

// ------------------------------------------------------------------------------------------- a member

SSL_SESSION* session_with(SSL* ssl, const wire::Secret& psk) {
  const unsigned char suite[] = {0x13, 0x01};
  SSL_SESSION* const session = SSL_SESSION_new();
  SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(psk.data()), psk.size());
  SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, suite));
  SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION);
  return session;
}

int offer(SSL* ssl, const EVP_MD*, const unsigned char** id, size_t* length, SSL_SESSION** session) {
  *id = reinterpret_cast<const unsigned char*>("nezha1");
  *length = 6;
  *session = session_with(ssl, key_of("job")->psk());
  return 1;
}

// Asks for new keys again and again, and does not read the answers.
TEST(TlsStream, WhoAsksForKeysWithoutEndCostsLittle) {
  SSL_CTX* const context = SSL_CTX_new(TLS_method());
  SSL_CTX_set_psk_use_session_callback(context, offer);
  auto [mine, theirs] = socket_pair(4096);
  auto made = key_of("job")->open(mine, false);
  ASSERT_TRUE(made.is_ok());
  TcpStream& stream = **made;
  Foreign foreign(context, std::move(theirs), true);
  for (int i = 0; i < 1000 && !stream.is_open(); ++i) {
    SSL_do_handshake(foreign.ssl());
    ASSERT_TRUE(is_opening(stream)) << stream.explain(errno);
  }
  ASSERT_TRUE(stream.is_open());
  for (int i = 0; i < 5000; ++i) {
    ASSERT_EQ(SSL_key_update(foreign.ssl(), SSL_KEY_UPDATE_REQUESTED), 1);
    if (SSL_do_handshake(foreign.ssl()) != 1) break;
    (void)is_opening(stream);
    (void)stream.push();
    ASSERT_LE(stream.unsent_bytes(), size_t{256 * 1024});
  }
  SSL_CTX_free(context);
}

}  // namespace
}  // namespace nezha::transport
