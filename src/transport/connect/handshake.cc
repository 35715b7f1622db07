#include "transport/connect/handshake.h"

#include <poll.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/transitions.h"
#include "wire/verdict.h"

namespace nezha::transport {
namespace {

using State = Handshake::State;

constexpr Transitions<State> kStates = {
    {State::connecting, {State::hello, State::unanswered}},
    {State::hello, {State::proof, State::testing, State::requesting, State::tested, State::turned_away,
                    State::refused, State::failed}},
    {State::proof, {State::testing, State::requested, State::refused, State::failed}},
    {State::testing, {State::test_heard, State::tested, State::turned_away, State::failed}},
    {State::test_heard, {State::tested, State::failed}},
    {State::tested, {State::used, State::unused, State::failed}},
    {State::used, {State::failed}},
    {State::unused, {State::failed}},
    {State::requesting, {State::requested, State::turned_away, State::failed}},
    {State::requested, {State::failed}},
};

template <size_t N>
std::span<const std::byte, N> fixed(const std::vector<std::byte>& bytes) {
  return std::span<const std::byte, N>(bytes.data(), N);
}

}  // namespace

Handshake::Handshake(const HandshakeIdentity& me, Descriptor fd, int peer, int rail, int peer_rail,
                   int lane, uint32_t epoch, Nanoseconds now, Nanoseconds deadline)
    : me_(me), dialer_(true), state_(State::connecting), peer_(peer), rail_(rail),
      peer_rail_(peer_rail), lane_(lane), since_(now), deadline_(deadline) {
  hello_.job = me.job;
  hello_.world_size = me.world_size;
  hello_.dialer_rank = static_cast<uint32_t>(me.rank);
  hello_.acceptor_rank = static_cast<uint32_t>(peer);
  hello_.dialer_rail = static_cast<uint16_t>(rail);
  hello_.acceptor_rail = static_cast<uint16_t>(peer_rail);
  hello_.lane = static_cast<uint16_t>(lane);
  hello_.epoch = epoch;
  open_stream(std::move(fd));
  if (auto nonce = wire::random_nonce()) {
    hello_.nonce = *nonce;
  } else {
    fail(nonce.status().message());
  }
}

Handshake::Handshake(const HandshakeIdentity& me, Descriptor fd, int rail, Nanoseconds now)
    : me_(me), dialer_(false), state_(State::hello), rail_(rail),
      since_(now), deadline_(now + kStrangerTimeout) {
  open_stream(std::move(fd));
}

void Handshake::open_stream(Descriptor fd) {
  if (me_.tls != nullptr) {
    auto encrypted = me_.tls->open(fd, dialer_);
    if (encrypted) {
      stream_ = std::move(*encrypted);
      return;
    }
    fail(encrypted.status().message());
  }
  stream_ = TcpStream::plain(std::move(fd));
}

short Handshake::poll_events() const {
  if (state_ == State::connecting) return POLLOUT;
  // While the stream is being opened, only the stream knows what it waits for.
  const bool writing = stream_->is_open() ? !is_written() : stream_->wants_write();
  return static_cast<short>(POLLIN | (writing ? POLLOUT : 0));
}

void Handshake::enter(State next) {
  NEZHA_CHECK(kStates.allow(state_, next));
  state_ = next;
}

void Handshake::fail(std::string reason, State how) {
  if (has_failed()) return;
  enter(state_ == State::connecting ? State::unanswered : how);
  reason_ = std::move(reason);
}

void Handshake::fail_stream(int os_errno) {
  const bool stranger = !dialer_ && !stream_->is_open() && os_errno == EPROTO;
  if (stranger && stream_->is_peer_plain()) {
    // The dialer speaks our protocol without TLS, and would not understand an answer in TLS.
    stream_ = TcpStream::plain(Descriptor(stream_->release_fd()));
    // Closing with bytes unread would reset the connection, and with it the answer.
    std::array<std::byte, wire::kHelloBytes> rest;
    const iovec piece{rest.data(), rest.size()};
    (void)stream_->receive(&piece, 1, TcpStream::Source::network);
    return refuse(wire::Refusal::needs_tls);
  }
  const bool has_ended = os_errno == EPIPE || os_errno == ECONNRESET;
  const State how = stranger ? State::refused : has_ended ? ended() : State::failed;
  if (dialer_ && !stream_->is_open() && os_errno != EPROTO) {
    return fail("closed by the peer during the TLS handshake: it may have tls=off, which must be equal "
                "on all ranks", how);
  }
  fail(stream_->explain(os_errno), how);
}

// The peer may not have read a proof that was sent: only a message of the test shows that it has.
Handshake::State Handshake::ended() const {
  const bool is_early =
      state_ == State::hello || state_ == State::testing || state_ == State::requesting;
  return dialer_ && is_early && in_.empty() ? State::turned_away : State::failed;
}

void Handshake::refuse(wire::Refusal refusal) {
  fail(std::string(wire::reason_of(refusal)), State::refused);
  // A stranger who does not even speak our protocol gets no answer.
  if (refusal != wire::Refusal::bad_magic) {
    std::array<std::byte, wire::kChallengeBytes> answer;
    wire::make_refusal(refusal, answer);
    write(answer.data(), answer.size());
  }
}

void Handshake::on_time(Nanoseconds now) {
  if (now < deadline_ || has_failed() || state_ == State::used) return;
  switch (state_) {
    case State::connecting: return fail("no answer: the port may be blocked by a firewall, or the "
                                        "networks are not connected");
    case State::hello: return fail("connected, but the handshake was not answered");
    case State::testing:
    case State::test_heard: return fail(test_->late());
    default: return fail("timed out");
  }
}

void Handshake::on_poll(short events, Nanoseconds now) {
  if (state_ == State::connecting) {
    if ((events & (POLLOUT | POLLERR | POLLHUP)) == 0) return;
    dial_errno_ = dial_error(stream_->fd());
    if (dial_errno_ != 0) return fail(std::strerror(dial_errno_));
    enter(State::hello);
    std::array<std::byte, wire::kHelloBytes> bytes;
    wire::encode(hello_, bytes);
    out_ = me_.ticket;
    return write(bytes.data(), bytes.size());
  }
  if (events & POLLOUT) flush();
  if (!has_failed() && (events & (POLLIN | POLLHUP | POLLERR))) read(now);
  // Sends the bytes that waited for the stream to open.
  if (!has_failed() && !out_.empty() && stream_->is_open()) flush();
}

void Handshake::write(const std::byte* data, size_t size) {
  out_.insert(out_.end(), data, data + size);
  flush();
}

void Handshake::flush() {
  while (out_done_ != out_.size()) {
    const iovec piece{out_.data() + out_done_, out_.size() - out_done_};
    const ssize_t sent = stream_->send(&piece, 1);
    if (sent < 0) {
      if (errno != EAGAIN) fail_stream(errno);
      return;
    }
    out_done_ += static_cast<size_t>(sent);
  }
  out_.clear(), out_done_ = 0;
  if (!stream_->push() && errno != EAGAIN) fail_stream(errno);
}

size_t Handshake::wanted() const {
  switch (state_) {
    case State::hello: return dialer_ ? wire::kChallengeBytes : wire::kHelloBytes;
    case State::proof: return wire::kProofBytes;
    // At least one byte is read even if the test waits for none: this finds a peer that speaks out
    // of turn, or has gone.
    case State::testing:
    case State::test_heard: return std::max<size_t>(test_->wanted(), 1);
    case State::tested: return dialer_ ? 0 : wire::kVerdictBytes;
    case State::requesting: return 1;
    default: return 0;
  }
}

void Handshake::read(Nanoseconds now) {
  while (wanted() > 0) {
    const size_t have = in_.size();
    in_.resize(wanted());
    const iovec piece{in_.data() + have, in_.size() - have};
    const ssize_t got = stream_->receive(&piece, 1, TcpStream::Source::network);
    const int os_errno = errno;
    in_.resize(have + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (state_ == State::requesting && (got == 0 || (got < 0 && os_errno != EAGAIN))) {
      return enter(State::requested);
    }
    if (got == 0) {
      if (dialer_ && !stream_->is_open()) return fail_stream(EPIPE);
      const char* const when = is_authenticated() ? "" : " during the handshake";
      return fail(std::string("closed by the peer") + when, ended());
    }
    if (got < 0) {
      if (os_errno != EAGAIN) fail_stream(os_errno);
      return;
    }
    const bool parts = is_testing() && test_->takes_parts();
    if (in_.size() < wanted() && !parts) continue;
    complete(now);
  }
}

void Handshake::complete(Nanoseconds now) {
  switch (state_) {
    case State::hello:
      dialer_ ? on_challenge(now) : on_hello();
      break;
    case State::proof:
      on_proof(now);
      break;
    case State::testing:
      enter(State::test_heard);
      [[fallthrough]];
    case State::test_heard:
      if (test_->wanted() == 0) return fail("the peer broke the protocol during the test");
      test_->on_bytes(in_, now, out_);
      follow_test();
      break;
    case State::tested:
      on_verdict();
      break;
    case State::requesting:
      return fail("refused: the request to connect was not believed");
    default:
      break;
  }
  in_.clear();
}

void Handshake::on_hello() {
  if (in_[0] == std::byte{0x16} && in_[1] == std::byte{3}) {
    return fail("it speaks TLS, and this rank has tls=off; set it equal on all ranks", State::refused);
  }
  if (auto refusal = wire::decode(fixed<wire::kHelloBytes>(in_), &hello_);
      refusal != wire::Refusal::none) {
    return refuse(refusal);
  }
  const wire::Expected expected{me_.job, me_.world_size, static_cast<uint32_t>(me_.rank),
                                me_.rail_counts, me_.lanes};
  if (auto refusal = wire::check_hello(hello_, expected); refusal != wire::Refusal::none) {
    return refuse(refusal);
  }
  // Somebody led the connection to another rail than the one that it was dialled for.
  if (hello_.acceptor_rail != rail_) return refuse(wire::Refusal::rail_out_of_range);
  auto nonce = wire::random_nonce();
  if (!nonce) return fail(nonce.status().message());
  acceptor_nonce_ = *nonce;
  std::array<std::byte, wire::kChallengeBytes> challenge;
  wire::make_challenge(me_.secret, hello_, acceptor_nonce_, challenge);
  enter(State::proof);
  write(challenge.data(), challenge.size());
}

void Handshake::on_challenge(Nanoseconds now) {
  const auto refusal = wire::verify_challenge(me_.secret, hello_, fixed<wire::kChallengeBytes>(in_),
                                              &acceptor_nonce_);
  if (refusal != wire::Refusal::none) {
    return fail("refused: " + std::string(wire::reason_of(refusal)));
  }
  if (ask_only_) return enter(State::tested);
  std::array<std::byte, wire::kProofBytes> proof;
  wire::make_proof(me_.secret, hello_, acceptor_nonce_, proof);
  write(proof.data(), proof.size());
  if (has_failed()) return;
  if (!is_request()) return begin_test(now);
  enter(State::requesting);
}

void Handshake::on_proof(Nanoseconds now) {
  if (auto refusal = wire::verify_proof(me_.secret, hello_, acceptor_nonce_,
                                        fixed<wire::kProofBytes>(in_));
      refusal != wire::Refusal::none) {
    return refuse(refusal);
  }
  peer_ = static_cast<int>(hello_.dialer_rank);
  peer_rail_ = hello_.dialer_rail;
  lane_ = hello_.lane;
  if (is_request()) return enter(State::requested);
  deadline_ = kNever;  // the dialer decides how long a test may take, and closes
  begin_test(now);
}

bool Handshake::protect() {
  if (me_.integrity == nullptr) return true;
  // The socket's buffer was empty except for the handshake.
  if (!is_written()) return fail("the handshake does not fit the socket's send buffer"), false;
  Descriptor fd(stream_->release_fd());
  const Secret keys = wire::integrity_keys_of(me_.secret, hello_, acceptor_nonce_);
  auto authenticated = me_.integrity->authenticate(fd, keys, dialer_);
  if (authenticated) {
    stream_ = std::move(*authenticated);
    return true;
  }
  stream_ = TcpStream::plain(std::move(fd));
  return fail(authenticated.status().message()), false;
}

void Handshake::begin_test(Nanoseconds now) {
  if (!protect()) return;
  auto test = me_.opener->test({dialer_, me_.secret, hello_, acceptor_nonce_});
  if (!test) return fail(test.status().message());
  test_ = std::move(*test);
  enter(State::testing);
  test_->begin(now, out_);
  follow_test();
}

bool Handshake::poll(Nanoseconds now) {
  if (!is_polled()) return false;
  const bool any = test_->poll(now);
  if (is_testing()) follow_test();
  return any;
}

void Handshake::follow_test() {
  if (!test_->failure().empty()) return fail(test_->failure());
  if (test_->is_over()) {
    enter(State::tested);
    latency_s_ = test_->latency_s();
    // The dialer's handshake waits for the other rails of the pair, which have deadlines.
    if (dialer_) deadline_ = kNever;
  }
  flush();
}

void Handshake::decide(bool use, int total) {
  const auto bytes = wire::encode(wire::Verdict{use, static_cast<uint16_t>(total),
                                                static_cast<uint64_t>(latency_s_ * 1e9)});
  write(bytes.data(), bytes.size());
  if (!has_failed()) enter(use ? State::used : State::unused);
}

void Handshake::on_verdict() {
  wire::Verdict verdict;
  if (!wire::decode(in_.data(), &verdict)) return fail("the peer broke the protocol after the test");
  total_ = verdict.total;
  latency_s_ = static_cast<double>(verdict.latency_ns) / 1e9;
  enter(verdict.use ? State::used : State::unused);
}

}  // namespace nezha::transport
