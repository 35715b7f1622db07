// RecoveryPlan: after an aggregation node was lost, who has which result, and what to do about the rest.
//
// Contract: pure, any thread; the same progress gives the same answer on every rank. Elements count from
// the beginning of the part that went through the node.
//
// No rank completes a long operation before all of them have the whole result
// (schedule/aggregation.h), so a rank that completed it need not be asked for it. Of a short one it
// keeps a copy.
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
  bool completed = false;             // it has all of it
  std::vector<schedule::Range> held;  // or these parts; in no order, none twice

  bool operator==(const OperationProgress&) const = default;
};

// How far one rank is when its node is lost. Operations are numbered from the first that used the node.
struct RankProgress {
  uint64_t completed = 0;               // all before this one
  uint64_t begun = 0;                   // all before this one
  std::vector<OperationProgress> open;  // those in between
};
std::string encode(const RankProgress& progress);
// False for bytes that are none.
bool decode(std::string_view bytes, RankProgress* progress);

// Some elements that a rank lacks: `holder` has them, or, with -1, nobody: they are reduced again.
struct MissingPiece {
  schedule::Range range;
  int holder = -1;

  bool operator==(const MissingPiece&) const = default;
};
// Of operation `seq`, with `count` elements. `progress`: by rank. Empty of an operation that everybody
// has.
std::vector<MissingPiece> missing_pieces(uint64_t seq, uint64_t count,
                                         std::span<const RankProgress> progress);
// Of one without elements (a barrier): whether somebody came completed, so that everybody may.
bool anyone_completed(uint64_t seq, std::span<const RankProgress> progress);

}  // namespace nezha::aggregation
