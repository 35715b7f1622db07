// RailTest and RailOpener: the parts of making a connection that differ between transports.
// Handshake and Connector do the rest (listening, dialling, verdict, strangers) for all rails
// alike.
//
// Contract
//   Owner    a test belongs to its handshake, from the proof of both sides on; an opener outlives all
//            handshakes that know it. One thread, or the progress lock; no call blocks.
//   Bytes    a test says how many bytes it waits for on the handshake's connection, and appends to
//            `out` those that are to be sent there. It may also use the rail itself, whose events
//            no descriptor tells: then the test is polled.
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

// The values that a rank knows once both sides have proved themselves.
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
  // Whether `on_bytes` accepts fewer bytes than `wanted`, too.
  virtual bool takes_parts() const { return false; }
  virtual void on_bytes(std::span<const std::byte> bytes, Nanoseconds now, Bytes& out) = 0;
  // Whether the rail has to be polled. `poll` does so; true: the rail brought something.
  virtual bool is_polled() const { return false; }
  virtual bool poll(Nanoseconds) { return false; }
  // The failure, in words for the user, of a test that was not over in time.
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
  // The pairs of rails over which this rank may reach the peer. Round 0 comes first; round 1 is for
  // rails that are left over.
  virtual std::vector<RailPair> candidates(const MeshRequest& request, int peer, int round) = 0;
  // Starts a TCP connection to the address at which that rail of the peer is dialled.
  virtual Result<Descriptor> dial(const MeshRequest& request, const Path& path) = 0;
  // Listens on a rail that was missing, and fills in its address; no sockets if it still is.
  virtual Result<std::vector<Descriptor>> listen(const MeshRequest&, RailAddress&) {
    return std::vector<Descriptor>();
  }
  virtual Result<std::unique_ptr<RailTest>> test(const Proved& proved) = 0;
  // Makes the wire of a handshake that is used, and takes from the handshake what the wire needs.
  virtual std::unique_ptr<Wire> make_wire(const MeshRequest& request, progress::Loop& loop,
                                          Handshake& handshake) = 0;
  // The network device whose carrier counts for each rail, by rail; "": it is not known.
  virtual std::vector<std::string> devices(const MeshRequest& request) = 0;
  // Whether a connection may end without a word to its peer, so that a probe has to find out whether the
  // process itself answers, not its host alone.
  virtual bool ends_unheard() const { return false; }
};

}  // namespace nezha::transport
