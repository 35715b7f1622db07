// The catalog: every algorithm, one row each. No registration at a distance: a new algorithm is a
// file in algorithms/ and a row in catalog.cc; the verifier's suite picks it up from here.
//
// Contract: pure, any thread.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>

#include "base/status.h"
#include "schedule/schedule.h"

namespace nezha::schedule {

// The most ranks of a schedule: stages and slots have 16 bits, and a ring has one program per rank.
inline constexpr int kWorldSizeMax = 16384;

// Pairwise exchanges reach this share of the ring's rate on four hosts, from 64 KB to 4 MB over one rail
// of 1 Gbit/s; over two equal ones 0.9 to 0.98.
inline constexpr double kExchangeLinkUse = 0.97;

// The costs of an algorithm for one rank, for `estimate` in candidates.h.
struct CostTerms {
  double steps = 0;           // messages one after the other: multiplies the latency
  double bytes_factor = 0;    // bytes sent by the busiest rank / bytes of the operation
  double reduce_factor = 0;   // bytes reduced by the busiest rank / bytes of the operation
  double link_use = 1;        // share of the rate that long messages reach: partners that wait for
                              // each other leave gaps, tokens that keep circulating do not
};

// Credit that a message takes beside its payload, for its header.
inline constexpr uint32_t kMessageHeaderBytes = 64;

// The properties of an algorithm that a plan needs without building it; equal on every rank.
struct Shape {
  uint32_t slices = 1;
  uint32_t parts = 1;
  // Some reduction has to wait for another message first (Proof::consumes_on_arrival is false), so
  // the window must fit into the credit.
  bool exchanges = false;
  // The order of additions depends on which part of its chunk an element is in, so the bits of a
  // floating-point sum change with the chunk size and thus with the number of rails. Never chosen
  // automatically.
  bool bits_follow_chunks = false;
  Geometry geometry = Geometry::even;
  // With `exchanges`: the most that one rank sends to one other within one chunk, in whole chunks
  // and in headers. Algorithms of the catalog send at most one chunk, and their plans reckon with
  // that.
  uint32_t pair_load = 1;
  uint32_t pair_header_bytes = 0;
  // For compositions for hosts (hierarchy.h): the messages, each a chunk at most, that one rank
  // sends to one other over a turn, which is a chunk of every slice. Windows hold whole turns. 0:
  // not known.
  uint32_t pair_turn = 0;
  // Ranks of one host that send to other hosts at once, and share its rails.
  uint32_t senders = 1;
};

struct AlgorithmEntry {
  Algorithm algorithm;
  Collective collective;
  std::string_view summary;  // one line for `nezha explain`
  Schedule (*build)(int rank, int world_size, int root);
  Shape (*shape)(int world_size);
  CostTerms (*cost)(int world_size);
};

// The row of a table for this collective and algorithm; nullptr: there is none.
template <class Entry>
const Entry* find_entry(std::span<const Entry> rows, Collective collective, Algorithm algorithm) {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const Entry& entry) {
    return entry.collective == collective && entry.algorithm == algorithm;
  });
  return row == rows.end() ? nullptr : &*row;
}

// All rows, and the row of one algorithm (nullptr when it does not do that collective).
std::span<const AlgorithmEntry> catalog();
const AlgorithmEntry* find_algorithm(Collective collective, Algorithm algorithm);

// The error `unsupported`: the algorithm does not do the collective; its text lists those that do.
Status refuse(Collective collective, Algorithm algorithm);

// `invalid_argument`: no such rank or root, or more ranks than a schedule may have.
Status check_place(int rank, int world_size, int root);

// Builds the schedule, or says why the arguments make no sense.
Result<Schedule> build(Collective collective, Algorithm algorithm, int rank, int world_size,
                       int root);

}  // namespace nezha::schedule
