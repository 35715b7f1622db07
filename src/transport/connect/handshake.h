// Handshake: one TCP connection on which two ranks prove themselves, test a rail and agree to use it.
// The rail's transport decides what the test is, and whether this connection carries the frames
// afterwards (rail_test.h).
//
// Contract
//   Owner    a Connector, or an object that accepts for one; one thread; the socket is non-blocking
//            and driven by poll or epoll. A handshake that failed keeps its socket until it is
//            closed, so that its owner can stop watching the socket first.
//   Trust    before the proof, an acceptor reads exactly one Hello (64 bytes) and believes nothing;
//            it gives a stranger two seconds. Ranks, rails and lanes of a Hello are in their
//            ranges, or it is refused; so are those of a handshake. With TLS the handshake runs
//            inside it, and the bytes that the acceptor reads before are bounded, too
//            (modules/protection/tls_stream.h).
//   Test     begins when both sides have proved themselves; the dialer decides how long it may take.
//   Request  a handshake of the epoch kRequestEpoch is over with the dialer's proof.
//   Verdict  the dialer has seen all rails of the pair; it says which connections are used, and
//            how many there are in all.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "transport/rail_socket.h"
#include "transport/connect/rail_test.h"
#include "transport/connect/stream_protection.h"
#include "transport/connect/tcp_stream.h"
#include "transport/transport.h"
#include "wire/handshake.h"

namespace nezha::transport {

// This rank's identity, and what it expects of a peer. All handshakes of an owner refer to one.
struct HandshakeIdentity {
  int rank = 0;              // mine
  uint32_t world_size = 0;
  uint64_t job = 0;
  wire::Secret secret{};
  std::vector<uint16_t> rail_counts = {};  // by rank
  uint16_t lanes = 1;                      // of every rail
  std::shared_ptr<const StreamKey> tls;         // null: not encrypted
  const StreamProtection* integrity = nullptr;  // of the bytes behind the handshake; null: none
  std::vector<std::byte> ticket = {};  // sent before everything else by whoever dials
  RailOpener* opener = nullptr;        // makes the tests; not null
};

class Handshake {
 public:
  enum class State : uint8_t {
    connecting,       // dialer
    hello,            // acceptor: waiting for Hello; dialer: waiting for Challenge
    proof,            // acceptor
    testing,          // nothing of the peer's test has come
    test_heard,       // something has: the peer has read what this side sent before
    tested,           // dialer: waits for the decision; acceptor: waits for the verdict
    used,
    unused,           // verdict: not needed
    requesting,       // dialer of a request: until the acceptor, who has read the proof, ends it
    requested,        // over: the dialer has proved itself, and its request has been heard
    unanswered,       // dialer: failed before the connection was accepted
    turned_away,      // dialer: the peer accepted the connection and closed it without an answer, as a
                      // rank does with strangers that make room (strangers.h)
    refused,          // acceptor: this rank refused the dialer
    failed,           // in any other way
  };

  // `me` outlives the handshake, or its proof where the connection was accepted.
  // A handshake that dials (peer, this rank's rail, the peer's rail, lane), for the `epoch`th time.
  Handshake(const HandshakeIdentity& me, Descriptor fd, int peer, int rail, int peer_rail, int lane,
           uint32_t epoch, Nanoseconds now, Nanoseconds deadline);
  // A handshake on a connection that was accepted on that rail of this rank.
  Handshake(const HandshakeIdentity& me, Descriptor fd, int rail, Nanoseconds now);

  // The events that poll should watch for.
  short poll_events() const;
  void on_poll(short events, Nanoseconds now);
  void on_time(Nanoseconds now);
  // Dialer: ends the handshake as `tested` when the acceptor has proved itself, without a proof of
  // this rank.
  void ask_only() { ask_only_ = true; }
  // Whether the test has to be polled. `poll` does so; true: the rail brought something.
  bool is_polled() const { return test_ != nullptr && !has_failed() && test_->is_polled(); }
  bool poll(Nanoseconds now);
  // Dialer, state tested: says whether this connection is used, one of `total` of the pair.
  void decide(bool use, int total);

  State state() const { return state_; }
  bool has_failed() const { return state_ >= State::unanswered; }
  bool is_dialer() const { return dialer_; }
  // Whether the other side has proved itself, and the handshake has not failed since.
  bool is_authenticated() const { return state_ >= State::testing && !has_failed(); }
  // Whether everything that was written has left, on the rail, too.
  bool is_flushed() const { return is_written() && !is_polled(); }
  int peer() const { return peer_; }
  int rail() const { return rail_; }
  int peer_rail() const { return peer_rail_; }
  int lane() const { return lane_; }
  Path path() const { return {peer_, rail_, peer_rail_, lane_}; }
  // An acceptor knows the epoch once the dialer is authenticated.
  uint32_t epoch() const { return hello_.epoch; }
  int total() const { return total_; }
  double latency_s() const { return latency_s_; }
  const std::string& reason() const { return reason_; }
  // Dialer: whether the connection was accepted, whatever followed.
  bool was_answered() const { return state_ != State::connecting && state_ != State::unanswered; }
  // Whether nothing has come from the other side yet that this side could understand.
  bool is_unheard() const { return state_ == State::connecting || state_ == State::hello; }
  // Dialer, unanswered: the network's reason, 0 when there was silence.
  int dial_errno() const { return dial_errno_; }
  int fd() const { return stream_->fd(); }
  // Gives the stream away when the handshake is over: the handshake then has no descriptor, and
  // nothing to flush.
  std::unique_ptr<TcpStream> release_stream() { return std::move(stream_); }
  std::unique_ptr<RailTest> release_test() { return std::move(test_); }
  void close() {
    stream_->close();
    test_.reset();
  }
  Nanoseconds deadline() const { return deadline_; }
  // When the connection was dialled or accepted.
  Nanoseconds since() const { return since_; }

 private:
  static constexpr Nanoseconds kStrangerTimeout = 2 * kSecond;

  bool is_testing() const { return state_ == State::testing || state_ == State::test_heard; }
  bool is_request() const { return hello_.epoch == wire::kRequestEpoch; }

  void enter(State next);
  void open_stream(Descriptor fd);
  // `how`: one of the states of failure. The first failure counts.
  void fail(std::string reason, State how = State::failed);
  void fail_stream(int os_errno);
  // The state of failure after the other side ended the connection.
  State ended() const;
  void refuse(wire::Refusal refusal);
  bool is_written() const { return out_done_ == out_.size() && !stream_->wants_write(); }
  void write(const std::byte* data, size_t size);
  void flush();
  void read(Nanoseconds now);
  // The size of the message that the present state waits for; 0: it waits for none.
  size_t wanted() const;
  void complete(Nanoseconds now);
  void on_hello();
  void on_challenge(Nanoseconds now);
  void on_proof(Nanoseconds now);
  void begin_test(Nanoseconds now);
  // From here on every byte is authenticated, where the job wants that; false when it cannot be.
  bool protect();
  // Draws the consequences of what the test did.
  void follow_test();
  void on_verdict();

  const HandshakeIdentity& me_;
  const bool dialer_;
  State state_;
  std::unique_ptr<TcpStream> stream_;
  int peer_ = -1;
  int rail_ = 0;
  int peer_rail_ = 0;
  int lane_ = 0;
  int total_ = 0;
  const Nanoseconds since_;
  Nanoseconds deadline_;
  int dial_errno_ = 0;
  std::string reason_;
  wire::Hello hello_;
  wire::Nonce acceptor_nonce_{};
  std::vector<std::byte> out_;
  size_t out_done_ = 0;
  std::vector<std::byte> in_;
  std::unique_ptr<RailTest> test_;
  bool ask_only_ = false;
  double latency_s_ = 0;
};

}  // namespace nezha::transport
