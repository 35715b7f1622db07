#include "memory/operation.h"

#include <array>

#include "base/copy.h"
#include "reduce/reduce.h"

namespace nezha::memory {
namespace {

Shape shape_of(const Area& area, const Call& call) {
  return {call.op.collective, call.op.dtype, call.op.count, call.counts, area.ranks(), area.rank(),
          call.op.root, area.slot_bytes()};
}

}  // namespace

Operation::Operation(Area& area, const Call& call)
    : area_(&area), pieces_(shape_of(area, call)), members_(area, call),
      in_(static_cast<const std::byte*>(call.in)), out_(static_cast<std::byte*>(call.out)),
      factor_(call.factor), op_(call.op), element_bytes_(dtype_size(call.op.dtype)),
      base_(area.next_piece) {
  area.next_piece += pieces_.count();
}

bool Operation::advance() {
  bool moved = false;
  bool any = true;
  while (any && !is_over() && disagrees() < 0) {
    any = put();
    any |= pieces_.folds() && fold();
    any |= take_next() || end();
    moved |= any;
  }
  return moved;
}

bool Operation::put() {
  if (posted_ == pieces_.count()) return false;
  const uint64_t next = base_ + posted_ + 1;
  if (posted_ >= taken_ + kSlots) return false;
  const bool room = members_.all(room_, [&](int member) { return area_->taken(member) + kSlots < next; });
  if (!room) return false;
  members_.say(next - 1);
  put_piece(posted_++);
  area_->set_posted(next);
  return true;
}

bool Operation::fold() {
  if (folded_ == posted_) return false;
  const uint64_t next = base_ + folded_ + 1;
  const bool ready = members_.all(to_fold_, [&](int member) {
    return area_->posted(member) < next || !members_.agrees(member, base_);
  });
  if (!ready) return false;
  fold_piece(folded_++);
  area_->set_folded(next);
  return true;
}

bool Operation::take_next() {
  if (taken_ == (pieces_.folds() ? folded_ : posted_)) return false;
  const uint64_t next = base_ + taken_ + 1;
  const bool ready = members_.all(to_take_, [&](int member) {
    // A member for which this rank waits at the end only is compared now: later, the header of its
    // next call may stand there.
    const bool compares = taken_ == 0 && !pieces_.folds() && pieces_.waits_for_taker(member);
    if (!pieces_.takes_from(member) && !compares) return false;
    if (pieces_.folds()) return area_->folded(member) < next;
    return area_->posted(member) < next || !members_.agrees(member, base_);
  });
  if (!ready) return false;
  take_piece(taken_++);
  area_->set_taken(next);
  return true;
}

bool Operation::end() {
  const uint64_t end = base_ + pieces_.count();
  if (taken_ < pieces_.count()) return false;
  over_ = members_.all(to_end_, [&](int member) {
    return pieces_.waits_for_taker(member) && area_->taken(member) < end;
  });
  return over_;
}

std::vector<int> Operation::awaited() const {
  std::vector<int> members;
  const uint64_t end = base_ + pieces_.count();
  for (int member = 0; member < area_->ranks(); ++member) {
    if (member == area_->rank()) continue;
    const bool must_fold =
        pieces_.folds() && area_->folded(member) < end && taken_ < pieces_.count();
    const bool must_post = pieces_.takes_from(member) && area_->posted(member) < end;
    const bool must_take = (posted_ < pieces_.count() && area_->taken(member) + kSlots < end) ||
                           (pieces_.waits_for_taker(member) && area_->taken(member) < end);
    if (must_fold || must_post || must_take) members.push_back(member);
  }
  return members;
}

uint64_t Operation::waited_for() const {
  uint64_t members = 0;
  for (const Watch& watch : {room_, to_fold_, to_take_, to_end_}) members |= watch.waited_for();
  return members;
}

// The last look can find that the operation now waits for another member.
bool Operation::sleep() {
  for (;;) {
    const uint64_t members = waited_for();
    area_->sleep(members);
    if (advance()) return true;
    if (waited_for() == members) return false;
  }
}

// ------------------------------------------------------------------------------------- pieces

void Operation::copy_input(std::byte* to, Range range, uint64_t in_origin) {
  const std::byte* from = input(range.begin - in_origin);
  area_->traffic.put += range.size() * element_bytes_;
  if (op_.op == ReduceOp::premul_sum) {
    reduce::scale(to, from, range.size(), op_.dtype, factor_);
  } else {
    copy_bytes(to, from, range.size() * element_bytes_);
  }
}

void Operation::copy_out(std::byte* to, const std::byte* from, uint64_t count) {
  if (to != from) copy_bytes(to, from, count * element_bytes_);
}

void Operation::put_piece(uint64_t piece) {
  if (!pieces_.puts()) return;
  std::byte* const to = slot(area_->rank(), piece);
  const int rank = area_->rank();
  const bool scales = op_.op == ReduceOp::premul_sum;
  switch (op_.collective) {
    case Collective::all_reduce:
    case Collective::reduce: {
      const Range all = pieces_.whole(piece);
      const Range own = pieces_.folds() ? pieces_.part(piece, rank) : Range{all.end, all.end};
      if (scales || own.size() == 0) return copy_input(to, all, 0);
      copy_input(to, {all.begin, own.begin}, 0);
      return copy_input(to + (own.end - all.begin) * element_bytes_, {own.end, all.end}, 0);
    }
    case Collective::broadcast:
      return copy_input(to, pieces_.whole(piece), 0);
    case Collective::all_gather:
    case Collective::gather:
      return copy_input(to, pieces_.of_block(piece, rank), pieces_.block_begin(rank));
    default:
      for (int block = 0; block < area_->ranks(); ++block) {
        if (block == rank && !scales) continue;
        copy_input(to + pieces_.slot_offset(block), pieces_.of_block(piece, block), 0);
      }
  }
}

void Operation::add_up(uint64_t piece, Range range, uint64_t offset, std::byte* to) {
  if (range.size() == 0) return;
  std::array<const void*, kRanksMax> operands;
  for (int member = 0; member < area_->ranks(); ++member) {
    const bool is_own = member == area_->rank() && op_.op != ReduceOp::premul_sum;
    operands[static_cast<size_t>(member)] = is_own ? input(range.begin) : slot(member, piece) + offset;
  }
  area_->traffic.taken += range.size() * element_bytes_ * static_cast<uint64_t>(area_->ranks() - 1);
  const auto ranks = static_cast<size_t>(area_->ranks());
  if (op_.op == ReduceOp::avg) {
    reduce::average(to, {operands.data(), ranks}, range.size(), op_.dtype, factor_,
                    factor_ * static_cast<double>(ranks));
  } else {
    reduce::reduce_many(to, {operands.data(), ranks}, range.size(), op_.dtype, op_.op);
  }
}

// Reduces this rank's part into its slot, where the others read it, and copies it from there into
// the output while it is in the cache.
void Operation::fold_piece(uint64_t piece) {
  const Range own = pieces_.part(piece, area_->rank());
  const uint64_t offset = (own.begin - pieces_.whole(piece).begin) * element_bytes_;
  std::byte* const to = slot(area_->rank(), piece) + offset;
  add_up(piece, own, offset, to);
  if (out_ != nullptr) copy_out(output(own.begin), to, own.size());
}

void Operation::take_piece(uint64_t piece) {
  const int rank = area_->rank();
  const bool is_root = rank == op_.root;
  switch (op_.collective) {
    case Collective::barrier:
      return;
    case Collective::all_reduce:
    case Collective::reduce: {
      if (op_.collective == Collective::reduce && !is_root) return;
      const Range all = pieces_.whole(piece);
      if (!pieces_.folds()) return add_up(piece, all, 0, output(all.begin));
      for (int member = 0; member < area_->ranks(); ++member) {
        if (member == rank) continue;
        const Range part = pieces_.part(piece, member);
        const uint64_t offset = (part.begin - all.begin) * element_bytes_;
        copy_out(output(part.begin), slot(member, piece) + offset, part.size());
        area_->traffic.taken += part.size() * element_bytes_;
      }
      return;
    }
    case Collective::broadcast: {
      const Range all = pieces_.whole(piece);
      if (is_root) return;
      area_->traffic.taken += all.size() * element_bytes_;
      return copy_out(output(all.begin), slot(op_.root, piece), all.size());
    }
    case Collective::reduce_scatter: {
      const Range own = pieces_.of_block(piece, rank);
      return add_up(piece, own, pieces_.slot_offset(rank), output(own.begin - pieces_.block_begin(rank)));
    }
    default:
      copy_blocks(piece);
  }
}

// Takes the blocks of an all_gather, gather, scatter or all_to_all. This rank copies its own block
// from its input, not from a slot.
void Operation::copy_blocks(uint64_t piece) {
  const int rank = area_->rank();
  const bool gathers = op_.collective == Collective::all_gather || op_.collective == Collective::gather;
  const bool scatters = op_.collective == Collective::scatter;
  for (int member = 0; member < area_->ranks(); ++member) {
    if (!pieces_.takes_from(member)) continue;
    // The block as the sender has it, and where it begins in the output.
    const Range block = pieces_.of_block(piece, gathers ? member : rank);
    const uint64_t into = block.begin - pieces_.block_begin(gathers ? member : rank);
    const uint64_t at = into + (scatters ? 0 : pieces_.block_begin(member));
    if (member != rank) {
      const uint64_t offset = gathers ? 0 : pieces_.slot_offset(rank);
      copy_out(output(at), slot(member, piece) + offset, block.size());
      area_->traffic.taken += block.size() * element_bytes_;
    } else {
      copy_out(output(at), input(gathers ? into : block.begin), block.size());
    }
  }
}

}  // namespace nezha::memory
