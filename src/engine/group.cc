#include "engine/group.h"

namespace nezha::engine {

void EarlyStore::put(EarlyFrame& frame) {
  // At the end of its chain: frames of one transfer order keep their order.
  EarlyFrame** link = &heads_[bucket(frame.header.op_seq, frame.header.chunk)];
  while (*link != nullptr) link = &(*link)->next;
  frame.next = nullptr;
  *link = &frame;
  ++count_;
}

EarlyFrame* EarlyStore::take(uint64_t op_seq, uint32_t chunk) {
  for (EarlyFrame** link = &heads_[bucket(op_seq, chunk)]; *link != nullptr; link = &(*link)->next) {
    EarlyFrame* frame = *link;
    if (frame->header.op_seq == op_seq && frame->header.chunk == chunk) {
      *link = frame->next;
      --count_;
      return frame;
    }
  }
  return nullptr;
}

EarlyFrame* EarlyStore::take_any() {
  for (EarlyFrame*& head : heads_) {
    if (head == nullptr) continue;
    EarlyFrame* frame = head;
    head = frame->next;
    --count_;
    return frame;
  }
  return nullptr;
}

Group::Group() = default;
Group::~Group() = default;

}  // namespace nezha::engine
