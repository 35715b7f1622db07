// RecoveryPlan: after an aggregation node was lost, which rank has which result, and what to do
// about the rest.
//
// Contract: pure, any thread; the same progress gives the same answer on every rank. Elements count from
// the beginning of the part that went through the node.
//
// No rank completes a long operation before all of them have the whole result
// (schedule/aggregation.h), so a rank that completed it need not be asked for the result. A rank
// keeps a copy of the result of a short operation.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "schedule/chunk_map.h"

namespace nezha::aggregation {

// How far one rank is with one operation.
struct OperationProgress {
  bool completed = false;             // the rank has the whole result
  std::vector<schedule::Range> held;  // otherwise these parts; in no order, none twice

  bool operator==(const OperationProgress&) const = default;
};

// How far one rank is when its node is lost. Operations are numbered from the first that used the node.
struct RankProgress {
  uint64_t completed = 0;               // all before this one
  uint64_t begun = 0;                   // all before this one
  std::vector<OperationProgress> open;  // those in between
};
std::string encode(const RankProgress& progress);
// False: the bytes are malformed.
bool decode(std::string_view bytes, RankProgress* progress);

// Elements that some rank lacks. `holder`: a rank that has them; -1: no rank has them, so they are
// reduced again.
struct MissingPiece {
  schedule::Range range;
  int holder = -1;

  bool operator==(const MissingPiece&) const = default;
};
// The pieces of operation `seq` that some rank lacks; empty when every rank has the whole result.
// `count`: the operation's elements; `progress`: by rank.
std::vector<MissingPiece> missing_pieces(uint64_t seq, uint64_t count,
                                         std::span<const RankProgress> progress);
// Whether some rank has completed operation `seq`, one without elements (a barrier), so that every
// rank may complete it.
bool anyone_completed(uint64_t seq, std::span<const RankProgress> progress);

}  // namespace nezha::aggregation
