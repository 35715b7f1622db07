// Ticket: the first 72 bytes of a connection to an aggregation node, before the handshake of
// wire/handshake.h: which job the connection belongs to, and that its key is known.
//
// Contract: pure functions over fixed-size messages; any thread. A node serves many jobs and holds one
// key, from which each job's is derived. Checking a ticket costs the node one HMAC-SHA256 (RFC 2104). A
// ticket is used once: a node refuses one whose nonce a member of a job that it serves has used. A ticket
// that somebody else replays leads to the handshake, which fails.
//
//   offset size field                 offset size field
//   0      4    magic                 16     8    job: whose key it is
//   4      2    version               24     8    run: one world of ranks in that job
//   6      2    nodes                 32     8    nonce
//   8      4    ranks                 40     32   HMAC(job key, bytes 0..39)
//   12     4    session: 0, 1, ...
//
// A ticket of 0 nodes is a topology request. Rank 0 of a world of two asks rank 1, and after the
// handshake the node sends the length of a text (4 bytes, little endian) and the text
// (aggregation/topology.h), and closes. The handshake says which rank or node connects, and to which
// node. Its job is the run.
#pragma once

#include <cstdint>
#include <span>

#include "aggregation/protocol/job_key.h"
#include "wire/handshake.h"

namespace nezha::aggregation {

inline constexpr size_t kTicketBytes = 72;
inline constexpr uint32_t kTicketRanksMax = 16384;
inline constexpr uint16_t kTicketNodesMax = 1024;

struct Ticket {
  uint64_t job = 0;
  uint64_t run = 0;
  uint32_t ranks = 0;
  uint16_t nodes = 0;
  // A job whose tree lost a member begins again with the next session, which shares nothing with the one
  // before.
  uint32_t session = 0;
  uint64_t nonce = 0;

  bool operator==(const Ticket&) const = default;
};
using TicketBytes = std::array<std::byte, kTicketBytes>;

TicketBytes make_ticket(const Ticket& ticket, const wire::Secret& job_key);
// `key` is the node's. `out` is written only when the answer is `none`.
wire::Refusal check_ticket(std::span<const std::byte, kTicketBytes> bytes, const wire::Secret& key,
                           Ticket* out);

}  // namespace nezha::aggregation
