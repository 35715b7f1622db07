// RecoveryPlan: after an aggregation node was lost, who has which result, and what to do about the rest.
//
// Contract: pure, any thread; the same claims give the same answer on every rank. Elements count from the
// beginning of the part that went through the node.
//
// No rank is through with a long operation before all of them have the whole result
// (schedule/aggregation.h), so whoever is through need not be asked for it; of a short one it keeps a
// copy.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "schedule/chunk_map.h"

namespace nezha::aggregation {

// What one rank says of one operation.
struct OperationProgress {
  bool through = false;               // it has all of it
  std::vector<schedule::Range> held;  // or these parts; in no order, none twice

  bool operator==(const OperationProgress&) const = default;
};

// What one rank says when its node is lost: operations are numbered by communicator and episode.
struct RankProgress {
  uint64_t through = 0;         // it is through with all before this one
  uint64_t begun = 0;           // and has begun all before this one
  std::vector<OperationProgress> open;   // those in between
};
std::string encode(const RankProgress& claims);
// False when it is none.
bool decode(std::string_view bytes, RankProgress* claims);

// Some elements that a rank lacks: `holder` has them, or, with -1, nobody: they are reduced again.
struct MissingPiece {
  schedule::Range range;
  int holder = -1;

  bool operator==(const MissingPiece&) const = default;
};
// Of operation `seq`, with `count` elements. `claims`: by rank. Empty of an operation that everybody has.
std::vector<MissingPiece> missing_pieces(uint64_t seq, uint64_t count, std::span<const RankProgress> claims);
// Of one without elements (a barrier): whether somebody came through, so that everybody may.
bool anyone_completed(uint64_t seq, std::span<const RankProgress> claims);

}  // namespace nezha::aggregation
