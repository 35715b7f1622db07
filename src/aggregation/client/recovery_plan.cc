#include "aggregation/client/recovery_plan.h"

#include <algorithm>

#include "base/blob.h"

namespace nezha::aggregation {

using schedule::Range;

namespace {

// More than a rank can have open, and more pieces than an operation has chunks in flight by far.
constexpr uint64_t kOpenMax = 4096;
constexpr uint64_t kRangesMax = 1 << 20;

bool is_through(const RankProgress& claims, uint64_t seq) {
  if (seq < claims.through) return true;
  return seq < claims.begun && claims.open[seq - claims.through].through;
}

bool holds(const RankProgress& claims, uint64_t seq, Range range) {
  if (is_through(claims, seq)) return true;
  if (seq >= claims.begun) return false;
  const std::vector<Range>& held = claims.open[seq - claims.through].held;
  return std::any_of(held.begin(), held.end(), [&](const Range& each) {
    return each.begin <= range.begin && range.end <= each.end;
  });
}

}  // namespace

std::string encode(const RankProgress& claims) {
  BlobWriter blob;
  blob.number(claims.through).number(claims.begun);
  for (const OperationProgress& claim : claims.open) {
    blob.number(claim.through ? 1 : 0).number(claim.held.size());
    for (const Range& range : claim.held) blob.number(range.begin).number(range.end);
  }
  return blob.take();
}

bool decode(std::string_view bytes, RankProgress* claims) {
  BlobReader blob(bytes);
  RankProgress read;
  read.through = blob.number();
  read.begun = blob.number();
  if (!blob.ok() || read.begun < read.through || read.begun - read.through > kOpenMax) return false;
  for (uint64_t seq = read.through; seq < read.begun && blob.ok(); ++seq) {
    OperationProgress& claim = read.open.emplace_back();
    claim.through = blob.number() != 0;
    const uint64_t ranges = blob.number();
    if (ranges > kRangesMax) return false;
    for (uint64_t i = 0; i < ranges && blob.ok(); ++i) {
      const uint64_t begin = blob.number();
      const uint64_t end = blob.number();
      if (begin >= end) return false;
      claim.held.push_back({begin, end});
    }
  }
  if (!blob.done()) return false;
  *claims = std::move(read);
  return true;
}

bool anyone_completed(uint64_t seq, std::span<const RankProgress> claims) {
  return std::any_of(claims.begin(), claims.end(),
                     [&](const RankProgress& rank) { return is_through(rank, seq); });
}

std::vector<MissingPiece> missing_pieces(uint64_t seq, uint64_t count, std::span<const RankProgress> claims) {
  std::vector<uint64_t> cuts = {0, count};
  for (const RankProgress& rank : claims) {
    if (seq < rank.through || seq >= rank.begun) continue;
    for (const Range& range : rank.open[seq - rank.through].held) {
      cuts.push_back(std::min<uint64_t>(range.begin, count));
      cuts.push_back(std::min<uint64_t>(range.end, count));
    }
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<MissingPiece> pieces;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    const Range range{cuts[i], cuts[i + 1]};
    int holder = -1;
    bool wanted = false;
    for (size_t rank = 0; rank < claims.size(); ++rank) {
      const bool has = holds(claims[rank], seq, range);
      if (has && holder < 0) holder = static_cast<int>(rank);
      wanted |= !has;
    }
    if (!wanted) continue;
    if (!pieces.empty() && pieces.back().holder == holder && pieces.back().range.end == range.begin) {
      pieces.back().range.end = range.end;
    } else {
      pieces.push_back({range, holder});
    }
  }
  return pieces;
}

}  // namespace nezha::aggregation
