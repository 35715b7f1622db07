// Transport: one mechanism that moves bytes, as the composition root sees it.
//
// Contract: `listen` and `connect` are blocking code with deadlines, called by one thread before
// the loop starts; the connections they make belong to the loop from then on. A job that connects
// on demand does without `connect`. Nothing that a stranger sends to a listening rail disturbs
// them. Errors: `exhausted` (descriptors), `invalid_argument` (ports), `peer_lost` (no rail reaches
// a peer), each with a sentence that names rail, address and peer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "progress/loop.h"
#include "transport/connect/pairing.h"
#include "transport/connection.h"
#include "transport/rail_address.h"
#include "wire/handshake.h"

namespace nezha::transport {

struct PeerAddress {
  int rank = 0;
  std::string host;           // equal for ranks that share a network stack
  std::vector<RailAddress> rails;
};

// Whether ranks of one host use shared memory in place of loopback.
enum class SharedMemory : uint8_t {
  off,
  automatic,  // where it can be had
  required,
};

struct MeshRequest {
  int rank = 0;
  uint64_t job = 0;
  wire::Secret secret{};
  std::vector<PeerAddress> ranks;  // all of them, this one included, by rank
  int streams_per_rail = 1;
  Nanoseconds probe_timeout = 3 * kSecond;
  uint16_t port_low = 0;  // where rails that come later listen
  uint16_t port_high = 0;
  std::string congestion_control;  // of TCP; "": the system's
  Nanoseconds peer_deadline = 30 * kSecond;  // the longest silence without an error
  bool payload_checksum = false;
  bool tls = false;
  bool integrity = false;  // which TLS includes
  SharedMemory shared_memory = SharedMemory::off;
  size_t control_frames_max = 16384;  // that may wait for one peer who does not read
  // Pairs of ranks connect when they first need it: a higher rank asks a lower one to dial.
  bool on_demand = false;
  // The first bytes of every connection that is dialled (modules/aggregation/protocol/ticket.h).
  std::vector<std::byte> ticket = {};

  // How many rails each rank has, by rank.
  std::vector<uint16_t> rail_counts() const {
    std::vector<uint16_t> counts;
    for (const PeerAddress& each : ranks) counts.push_back(static_cast<uint16_t>(each.rails.size()));
    return counts;
  }
  const RailAddress& rail_of(int of_rank, int rail) const {
    return ranks[static_cast<size_t>(of_rank)].rails[static_cast<size_t>(rail)];
  }
  bool is_same_host(int peer) const {
    return ranks[static_cast<size_t>(rank)].host == ranks[static_cast<size_t>(peer)].host;
  }
};

struct Mesh {
  std::vector<std::unique_ptr<Connection>> connections;
  // One sentence, with the reason, for each rail of this rank that does not reach some peer that
  // this rank dialled; the peers report the other pairs.
  std::vector<std::string> left_out;
  // Ranks of this host that were to share memory with this one and do not on some connection.
  std::vector<int> apart;
};

// One connection of a pair of ranks, by name.
struct Path {
  int peer = -1;       // global rank
  int rail = 0;        // mine
  int peer_rail = 0;
  int lane = 0;
  bool operator==(const Path&) const = default;
};

// Tells a connection its path, epoch and latency.
inline void identify(Connection& connection, const Path& path, uint32_t epoch, double latency_s) {
  connection.peer = path.peer;
  connection.rail = path.rail;
  connection.peer_rail = path.peer_rail;
  connection.lane = path.lane;
  connection.epoch = epoch;
  connection.latency_s = latency_s;
}

enum class DialOutcome : uint8_t {
  refused,     // the host answers, and nobody listens there: the process is gone
  unanswered,  // silence
  failed,      // somebody answered, and the connection did not pass its test
  starved,     // this host cannot dial: it has no descriptor, port, memory or right for it
};

// The outcome of a probe: who answered it, if anybody did.
enum class Probed : uint8_t {
  nothing,
  refusal,  // the host answered that nobody listens there
  host,     // somebody listens, and may be standing still
  process,  // the peer itself
  untried,  // nobody was asked: this host lacks something, which says nothing about the peer
};

// The outcome of `ConnectionManager::connect` with one peer.
struct ConnectResult {
  int peer = -1;
  Status lost = {};       // ok: some connection was made, which has joined before
  bool answered = false;  // somebody answered, whatever followed
  bool refused = false;   // on some rail the host answered that nobody listens there
  bool silent = false;    // some rail got no answer at all
  bool starved = false;   // some rail was not tried, because this host lacks something
  // One sentence for each rail of this rank that is not used, where this rank dialled.
  std::vector<std::string> left_out = {};
};

// The error "rank 3: it reaches rank 7 on no rail (...); check cables, ...", from such sentences.
inline Status unreached(int rank, Code code, int peer, const std::string& sentences) {
  return error(code, "rank %d: %s; check cables, addresses and firewalls, or choose rails "
               "with NEZHA_RAILS", rank, sentences.c_str()).with_peer(peer);
}

// Receives the outcomes of dials and probes, and news of peers and devices. Progress lock held.
class JoinEvents {
 public:
  virtual ~JoinEvents() = default;
  // A connection was made by either side, authenticated and tested. Its epoch tells old from new.
  virtual void on_joined(std::unique_ptr<Connection> connection) = 0;
  // A `connect` has ended.
  virtual void on_connect_done(const ConnectResult&) {}
  // A higher rank needs connections with this rank, which is to `connect` with it.
  virtual void on_connection_requested(int) {}
  virtual void on_dial_failed(const Path& path, DialOutcome outcome, const std::string& reason) = 0;
  // A `probe` has ended.
  virtual void on_probed(const Path& path, Probed probed) = 0;
  // The device of a rail lost its carrier, or has it again.
  virtual void on_carrier(int rail, bool up) = 0;
  // Some device of this host has come, or has an address that it had not.
  virtual void on_devices_changed() {}
};

// A rail of this rank that was missing, and its address for the other ranks' `place_rail`.
struct PlacedRail {
  int rail = 0;
  std::string where;
};

// Makes first connections and lost ones again while the loop runs, and accepts those of peers.
//
// Contract: progress lock held; no call blocks. Listens for the life of the job; strangers are
// bounded in number, time and bytes. The lower rank of a pair dials.
class ConnectionManager {
 public:
  virtual ~ConnectionManager() = default;
  // Makes the first connections with `peer`, or those on rails that are not `in_use` between the
  // two; ends in on_connect_done, never inside the call. A manager that makes only lost connections
  // again ignores it.
  virtual void connect(int, const std::vector<RailPair>&) {}
  // Tries once, for at most `patience`; ends in on_joined or on_dial_failed, never inside the call.
  virtual void dial(const Path& path, uint32_t epoch, Nanoseconds patience) = 0;
  // Looks once whether anybody listens; ends in on_probed, within `patience`. Whoever answers is
  // sent nothing except a Hello.
  virtual void probe(const Path& path, Nanoseconds patience) = 0;
  // Listens on rails of this rank that were missing and have an address now; returns them.
  virtual std::vector<PlacedRail> find_rails() { return {}; }
  // A rail of the peer that was missing has an address now. A `where` that is no rail's is ignored.
  virtual void place_rail(int /*peer*/, int /*rail*/, std::string_view /*where*/) {}
  // Whether a connection from a member is being accepted: the member may count it as made before
  // this rank does.
  virtual bool is_accepting() const { return false; }
  // `run` ends attempts that ran out of time; `next_wakeup` is when it must be called next.
  virtual void run(Nanoseconds now) = 0;
  virtual Nanoseconds next_wakeup() const = 0;
  // Ends every attempt and stops listening; no event comes any more.
  virtual void stop() = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  // Listens on every rail (bound to its address only) and fills in the ports.
  virtual Status listen(std::vector<RailAddress>& rails, uint16_t port_low, uint16_t port_high) = 0;
  // Pairs rails with every peer by trying them, and connects.
  virtual Result<Mesh> connect(const MeshRequest& request, progress::Loop& loop,
                               ConnectionEvents& events) = 0;
  // After `connect`, or on demand instead of it, once, with the progress lock held: keeps listening,
  // and makes connections. Errors: `exhausted`.
  virtual Result<std::unique_ptr<ConnectionManager>> manage(const MeshRequest& request,
                                                            progress::Loop& loop,
                                                            ConnectionEvents& events,
                                                            JoinEvents& joins) = 0;
};

}  // namespace nezha::transport
