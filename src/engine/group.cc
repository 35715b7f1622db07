#include "engine/group.h"

#include <algorithm>

namespace nezha::engine {

void EarlyStore::put(EarlyFrame& frame) {
  // At the end of its chain: frames of one transfer order keep their order.
  const size_t at = bucket(frame.header.op_seq, frame.header.chunk);
  used_[at / kBits] |= uint64_t{1} << (at % kBits);
  EarlyFrame** link = &heads_[at];
  while (*link != nullptr) link = &(*link)->next;
  frame.next = nullptr;
  *link = &frame;
  ++count_;
}

EarlyFrame* EarlyStore::take(uint64_t op_seq, uint32_t chunk) {
  const size_t at = bucket(op_seq, chunk);
  for (EarlyFrame** link = &heads_[at]; *link != nullptr; link = &(*link)->next) {
    const wire::FrameHeader& header = (*link)->header;
    if (header.op_seq == op_seq && header.chunk == chunk) return unlink(at, link);
  }
  return nullptr;
}

EarlyFrame* EarlyStore::take_any() {
  for (size_t at = 0; at < kBuckets; ++at) {
    if (heads_[at] != nullptr) return unlink(at, &heads_[at]);
  }
  return nullptr;
}

EarlyFrame* EarlyStore::unlink(size_t bucket, EarlyFrame** link) {
  EarlyFrame* const frame = *link;
  *link = frame->next;
  if (heads_[bucket] == nullptr) used_[bucket / kBits] &= ~(uint64_t{1} << (bucket % kBits));
  --count_;
  return frame;
}

Execution* Group::find_active(uint64_t op_seq) const {
  const auto is_before = [](const auto& each, uint64_t seq) { return each->op_seq() < seq; };
  const auto found = std::lower_bound(active.begin(), active.end(), op_seq, is_before);
  return found != active.end() && (*found)->op_seq() == op_seq ? found->get() : nullptr;
}

Group::Group() = default;
Group::~Group() = default;

}  // namespace nezha::engine
