#include "memory/pieces.h"

#include <algorithm>

#include "base/divide_up.h"

namespace nezha::memory {

bool carries(Collective collective) {
  return collective != Collective::all_to_all_v && collective != Collective::send_recv;
}

Pieces::Cut Pieces::cut_of(Collective collective) {
  switch (collective) {
    case Collective::all_gather:
    case Collective::gather:
      return Cut::block;
    case Collective::reduce_scatter:
    case Collective::scatter:
    case Collective::all_to_all:
      return Cut::blocks;
    default:
      return Cut::whole;
  }
}

Pieces::Pieces(const Shape& shape)
    : collective_(shape.collective), ranks_(shape.ranks), rank_(shape.rank), root_(shape.root),
      total_(shape.count), element_bytes_(std::max<uint64_t>(dtype_size(shape.dtype), 1)) {
  const Cut cut = cut_of(collective_);
  const auto blocks = static_cast<uint64_t>(ranks_);
  uint64_t longest = total_;
  if (cut != Cut::whole) {
    begins_[0] = longest = 0;
    for (uint64_t block = 0; block < blocks; ++block) {
      const uint64_t size = shape.counts.empty() ? total_ / blocks : shape.counts[block];
      begins_[block + 1] = begins_[block] + size;
      longest = std::max(longest, size);
    }
  }
  const uint64_t slot_elements = shape.slot_bytes / element_bytes_;
  step_ = std::max<uint64_t>(1, cut == Cut::blocks ? slot_elements / blocks : slot_elements);
  count_ = std::max<uint64_t>(1, divide_up(longest, step_));
  longest_bytes_ = std::min(step_, longest) * (cut == Cut::blocks ? blocks : 1) * element_bytes_;
  const bool adds_up = collective_ == Collective::all_reduce || collective_ == Collective::reduce;
  folds_ = adds_up && total_ * element_bytes_ > kFoldBytes;
}

bool Pieces::puts() const {
  if (collective_ == Collective::barrier) return false;
  const bool from_root = collective_ == Collective::broadcast || collective_ == Collective::scatter;
  return !from_root || rank_ == root_;
}

bool Pieces::takes_from(int member) const {
  switch (collective_) {
    case Collective::broadcast:
    case Collective::scatter:
      return member == root_;
    case Collective::reduce:
    case Collective::gather:
      return rank_ == root_;
    default:
      return true;
  }
}

bool Pieces::waits_for_taker(int member) const {
  switch (collective_) {
    case Collective::broadcast:
    case Collective::scatter:
      return rank_ == root_;
    case Collective::reduce:
    case Collective::gather:
      return rank_ != root_ && member == root_;
    default:
      return false;
  }
}

Range Pieces::whole(uint64_t piece) const {
  return {std::min(piece * step_, total_), std::min((piece + 1) * step_, total_)};
}

Range Pieces::part(uint64_t piece, int member) const {
  const Range all = whole(piece);
  const uint64_t line = std::max<uint64_t>(1, kLineBytes / element_bytes_);
  const auto edge = [&](int at) {
    if (at == ranks_) return all.end;
    const uint64_t share = all.size() * static_cast<uint64_t>(at) / static_cast<uint64_t>(ranks_);
    return all.begin + share / line * line;
  };
  return {edge(member), edge(member + 1)};
}

Range Pieces::of_block(uint64_t piece, int block) const {
  const uint64_t begin = begins_[static_cast<size_t>(block)];
  const uint64_t end = begins_[static_cast<size_t>(block) + 1];
  return {std::min(begin + piece * step_, end), std::min(begin + (piece + 1) * step_, end)};
}

uint64_t Pieces::slot_offset(int block) const {
  return static_cast<uint64_t>(block) * step_ * element_bytes_;
}

}  // namespace nezha::memory
