#include "aggregation/client/recovery_plan.h"

#include <algorithm>

#include "base/blob.h"

namespace nezha::aggregation {

using schedule::Range;

namespace {

// More than a rank can have open, and more pieces than an operation has chunks in flight by far.
constexpr uint64_t kOpenMax = 4096;
constexpr uint64_t kRangesMax = 1 << 20;

bool is_completed(const RankProgress& progress, uint64_t seq) {
  if (seq < progress.completed) return true;
  return seq < progress.begun && progress.open[seq - progress.completed].completed;
}

bool holds(const RankProgress& progress, uint64_t seq, Range range) {
  if (is_completed(progress, seq)) return true;
  if (seq >= progress.begun) return false;
  const std::vector<Range>& held = progress.open[seq - progress.completed].held;
  return std::any_of(held.begin(), held.end(), [&](const Range& each) {
    return each.begin <= range.begin && range.end <= each.end;
  });
}

}  // namespace

std::string encode(const RankProgress& progress) {
  BlobWriter blob;
  blob.number(progress.completed).number(progress.begun);
  for (const OperationProgress& operation : progress.open) {
    blob.number(operation.completed ? 1 : 0).number(operation.held.size());
    for (const Range& range : operation.held) blob.number(range.begin).number(range.end);
  }
  return blob.take();
}

bool decode(std::string_view bytes, RankProgress* progress) {
  BlobReader blob(bytes);
  RankProgress read;
  read.completed = blob.number();
  read.begun = blob.number();
  if (!blob.ok() || read.begun < read.completed || read.begun - read.completed > kOpenMax) return false;
  for (uint64_t seq = read.completed; seq < read.begun && blob.ok(); ++seq) {
    OperationProgress& operation = read.open.emplace_back();
    operation.completed = blob.number() != 0;
    const uint64_t ranges = blob.number();
    if (ranges > kRangesMax) return false;
    for (uint64_t i = 0; i < ranges && blob.ok(); ++i) {
      const uint64_t begin = blob.number();
      const uint64_t end = blob.number();
      if (begin >= end) return false;
      operation.held.push_back({begin, end});
    }
  }
  if (!blob.done()) return false;
  *progress = std::move(read);
  return true;
}

bool anyone_completed(uint64_t seq, std::span<const RankProgress> progress) {
  return std::any_of(progress.begin(), progress.end(),
                     [&](const RankProgress& rank) { return is_completed(rank, seq); });
}

std::vector<MissingPiece> missing_pieces(uint64_t seq, uint64_t count,
                                         std::span<const RankProgress> progress) {
  std::vector<uint64_t> cuts = {0, count};
  for (const RankProgress& rank : progress) {
    if (seq < rank.completed || seq >= rank.begun) continue;
    for (const Range& range : rank.open[seq - rank.completed].held) {
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
    for (size_t rank = 0; rank < progress.size(); ++rank) {
      const bool has = holds(progress[rank], seq, range);
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
