#include "engine/group/group.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace nezha::engine {

std::array<EarlyFrame::Links*, kEarlyLevels> EarlyStore::path_to(const Identity& identity,
                                                                 bool after_equals) {
  std::array<Links*, kEarlyLevels> path;
  Links* at = &heads_;
  for (size_t level = kEarlyLevels; level-- > 0;) {
    while (EarlyFrame* const next = (*at)[level]) {
      const Identity other = identity_of(next->header, next->global_rank);
      if (!(other < identity || (after_equals && other == identity))) break;
      at = &next->next;
    }
    path[level] = at;
  }
  return path;
}

const EarlyFrame* EarlyStore::first_from(const Identity& identity) const {
  const Links* at = &heads_;
  for (size_t level = kEarlyLevels; level-- > 0;) {
    while (const EarlyFrame* const next = (*at)[level]) {
      if (!(identity_of(next->header, next->global_rank) < identity)) break;
      at = &next->next;
    }
  }
  return (*at)[0];
}

// A quarter of the frames of each level are on the next one, too.
int EarlyStore::random_height() {
  random_ = random_ * 6364136223846793005u + 1442695040888963407u;
  constexpr uint64_t kTallest = uint64_t{1} << (2 * (kEarlyLevels - 1));
  return 1 + std::countr_zero(random_ >> 32 | kTallest) / 2;
}

// The frame goes behind frames of equal identity, so frames of one transfer keep their order.
void EarlyStore::put(EarlyFrame& frame) {
  const auto path = path_to(identity_of(frame.header, frame.global_rank), true);
  const auto height = static_cast<size_t>(random_height());
  for (size_t level = 0; level < height; ++level) {
    frame.next[level] = std::exchange((*path[level])[level], &frame);
  }
}

EarlyFrame* EarlyStore::pop(uint64_t op_seq, uint32_t chunk) {
  if (empty()) return nullptr;
  const auto path = path_to({op_seq, chunk, 0, 0, -1}, false);
  EarlyFrame* const frame = (*path[0])[0];
  if (frame == nullptr || frame->header.op_seq != op_seq || frame->header.chunk != chunk) return nullptr;
  for (size_t level = 0; level < kEarlyLevels && (*path[level])[level] == frame; ++level) {
    (*path[level])[level] = frame->next[level];
  }
  return frame;
}

bool EarlyStore::holds(const wire::FrameHeader& header, int global_rank) const {
  const Identity identity = identity_of(header, global_rank);
  const EarlyFrame* const frame = first_from(identity);
  return frame != nullptr && identity_of(frame->header, frame->global_rank) == identity;
}

EarlyFrame* EarlyStore::take_any() {
  return empty() ? nullptr : pop(heads_[0]->header.op_seq, heads_[0]->header.chunk);
}

}  // namespace nezha::engine
