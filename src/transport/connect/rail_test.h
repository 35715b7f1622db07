// RailTest and RailOpener: what is a transport's own in making a connection. Everything else (listening,
// dialling, the handshake, the verdict, strangers) is Handshake's and Connector's, for all rails alike.
//
// Contract
//   Owner    a test belongs to its handshake, from the proof of both sides on; an opener outlives all
//            handshakes that know it. One thread, or the progress lock; no call blocks.
//   Bytes    a test says what it waits for on the handshake's connection, and appends to `out` what is
//            to be said there. It may use the rail itself, of which no descriptor tells: then it is
//            polled.
//   Errors   a test that fails says why, in words for the user; nothing of it stays.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/status.h"
#include "progress/loop.h"
#include "transport/wire.h"
#include "wire/handshake.h"

namespace nezha::transport {

class Handshake;
struct MeshRequest;
struct Path;
struct RailPair;
struct RailAddress;

// What both sides know once they have proved themselves.
struct Proved {
  bool dialer = false;
  const wire::Secret& secret;
  const wire::Hello& hello;
  const wire::Nonce& acceptor_nonce;
};

class RailTest {
 public:
  using Bytes = std::vector<std::byte>;

  virtual ~RailTest() = default;
  virtual void begin(Nanoseconds now, Bytes& out) = 0;
  // How many bytes of the connection come next; 0: none are expected.
  virtual size_t wanted() const = 0;
  // Whether fewer of them are taken, too.
  virtual bool takes_parts() const { return false; }
  virtual void take(std::span<const std::byte> bytes, Nanoseconds now, Bytes& out) = 0;
  // Whether the rail has to be asked, and what it brought: true when there was anything.
  virtual bool is_polled() const { return false; }
  virtual bool poll(Nanoseconds) { return false; }
  // What a test means that was not over in time.
  virtual const char* late() const = 0;

  bool is_over() const { return over_; }
  const std::string& failure() const { return failure_; }  // empty: it has not failed
  double latency_s() const { return latency_s_; }           // the dialer's

 protected:
  bool over_ = false;
  std::string failure_;
  double latency_s_ = 0;
};

class RailOpener {
 public:
  virtual ~RailOpener() = default;
  // Which of this rank's rails may reach which of the peer's; what is left over is tried in round 1.
  virtual std::vector<RailPair> candidates(const MeshRequest& request, int peer, int round) = 0;
  // Starts a TCP connection to where that rail of the peer is dialled.
  virtual Result<Descriptor> dial(const MeshRequest& request, const Path& path) = 0;
  // Listens on a rail that was missing, and fills in where; none while it is missing still.
  virtual Result<std::vector<Descriptor>> listen(const MeshRequest&, RailAddress&) {
    return std::vector<Descriptor>();
  }
  virtual Result<std::unique_ptr<RailTest>> test(const Proved& proved) = 0;
  // Of a handshake that is used: takes from it what the wire needs.
  virtual std::unique_ptr<Wire> make_wire(const MeshRequest& request, progress::Loop& loop,
                                          Handshake& handshake) = 0;
  // Whose carrier is a rail's, by rail; "": nobody knows.
  virtual std::vector<std::string> devices(const MeshRequest& request) = 0;
  // Whether a connection may end without a word to its peer, so that a probe has to find out whether the
  // process itself answers, not its host alone.
  virtual bool ends_unheard() const { return false; }
};

}  // namespace nezha::transport
