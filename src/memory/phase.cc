#include "memory/phase.h"

#include <algorithm>
#include <array>

#include "base/copy.h"
#include "base/divide_up.h"
#include "memory/pieces.h"
#include "reduce/reduce.h"

namespace nezha::memory {

Phase::Phase(PhaseKind kind, Area& area, Runs& runs, const Call& call)
    : kind_(kind), area_(&area), runs_(&runs), members_(area, call),
      in_(static_cast<const std::byte*>(call.in)), out_(static_cast<std::byte*>(call.out)),
      factor_(call.factor), op_(call.op),
      element_bytes_(std::max<uint64_t>(dtype_size(call.op.dtype), 1)),
      step_(area.slot_bytes() / element_bytes_), base_(area.next_piece) {
  uint64_t elements = 0;
  for (uint32_t index = 0; index < runs.count(); ++index) {
    const Run run = runs.at(index);
    elements += run.size;
    owners_ |= bit_of(run.owner);
  }
  pieces_ = std::max<uint64_t>(1, divide_up(elements, step_));
  area.next_piece += pieces_;
  // This rank takes nothing in such a broadcast. If it did not wait for the others to take theirs,
  // it would never learn that one of them makes another call, or none.
  awaits_takers_ = op_.collective == Collective::broadcast && owners_ == bit_of(area.rank());
  look_ahead(to_put_);
  look_ahead(to_take_);
}

bool Phase::advance(uint32_t ready) {
  bool moved = false;
  bool any = true;
  while (any && is_current() && disagrees() < 0) {
    any = put(ready);
    any |= take_next() || end();
    moved |= any;
  }
  return moved;
}

bool Phase::put(uint32_t ready) {
  if (posted_ == pieces_ || posted_ == taken_ + kSlots) return false;
  if (kind_ == PhaseKind::hand_out && to_put_.own_runs_end > ready) return false;
  const uint64_t next = base_ + posted_ + 1;
  const bool room = members_.all(room_, [&](int member) { return area_->taken(member) + kSlots < next; });
  if (!room) return false;
  members_.say(next - 1);
  put_piece();
  ++posted_;
  area_->set_posted(next);
  return true;
}

bool Phase::take_next() {
  if (taken_ == posted_) return false;
  const bool collects_own = kind_ == PhaseKind::collect && to_take_.own_runs_end > 0;
  if (collects_own && !runs_->has_room()) return false;
  const uint64_t piece = base_ + taken_;
  const bool ready = members_.all(posts_, [&](int member) {
    return waits_for(member) && (area_->posted(member) <= piece || !members_.agrees(member, piece));
  });
  if (!ready) return false;
  take_piece();
  ++taken_;
  area_->set_taken(piece + 1);
  return true;
}

bool Phase::end() {
  if (taken_ < pieces_) return false;
  is_over_ = !awaits_takers_ || members_.all(takers_, [&](int member) {
    return area_->taken(member) < base_ + pieces_;
  });
  if (is_over_) area_->phases_over += pieces_;
  return is_over_;
}

// Collecting, a rank waits for all others if it owns a part of the piece, else for nobody. Handing
// out, it waits for the members that own a part.
bool Phase::waits_for(int member) const {
  return (to_take_.owners & bit_of(kind_ == PhaseKind::collect ? area_->rank() : member)) != 0;
}

std::vector<int> Phase::awaited() const {
  std::vector<int> members;
  if (is_over()) return members;
  const uint64_t end = base_ + pieces_;
  for (int member = 0; member < area_->ranks(); ++member) {
    if (member == area_->rank()) continue;
    const int owner = kind_ == PhaseKind::collect ? area_->rank() : member;
    const bool must_post = (owners_ & bit_of(owner)) != 0 && area_->posted(member) < end;
    const bool must_take = (posted_ < pieces_ && area_->taken(member) + kSlots < end) ||
                           (awaits_takers_ && area_->taken(member) < end);
    if (must_post || must_take) members.push_back(member);
  }
  return members;
}

// Only the phase whose turn it is sets the sign of sleep. The last look can find that the phase now
// waits for another member.
bool Phase::sleep(uint32_t ready) {
  while (is_current()) {
    const uint64_t members = waited_for();
    area_->sleep(members);
    if (advance(ready)) return true;
    if (waited_for() == members) return false;
  }
  return false;
}

// ------------------------------------------------------------------------------------- pieces

template <class Visit>
void Phase::walk(Place& place, Visit visit) const {
  uint64_t elements = 0;
  while (place.run < runs_->count()) {
    const Run run = runs_->at(place.run);
    const uint64_t size = std::min(run.size - place.into, step_ - elements);
    if (size == 0 && run.size > 0) return;
    visit(Part{place.run, run, place.into, size, elements * element_bytes_});
    elements += size;
    place.into += size;
    if (place.into < run.size) return;
    ++place.run;
    place.into = 0;
  }
}

void Phase::look_ahead(Place& place) const {
  Place end = place;
  uint64_t owners = 0;
  uint32_t own_end = 0;
  walk(end, [&](const Part& part) {
    owners |= bit_of(part.run.owner);
    if (part.run.owner == area_->rank()) own_end = part.index + 1;
  });
  place.owners = owners;
  place.own_runs_end = own_end;
}

// The elements of this part that this rank puts into its slot; null: none. It puts nothing of runs
// that it collects itself, whose input it reads directly, unless inputs are scaled (premul_sum).
const std::byte* Phase::source_of(const Part& part) const {
  const bool is_own = part.run.owner == area_->rank();
  if (kind_ == PhaseKind::hand_out) return is_own ? out_ + part.begin() * element_bytes_ : nullptr;
  if (part.run.from != kAll) {
    return part.run.from == area_->rank() ? in_ + part.into * element_bytes_ : nullptr;
  }
  const bool puts = !is_own || op_.op == ReduceOp::premul_sum;
  return puts ? in_ + part.begin() * element_bytes_ : nullptr;
}

void Phase::put_piece() {
  std::byte* const to = slot(area_->rank(), posted_);
  const bool scales = kind_ == PhaseKind::collect && op_.op == ReduceOp::premul_sum;
  walk(to_put_, [&](const Part& part) {
    const std::byte* const from = part.size == 0 ? nullptr : source_of(part);
    if (from == nullptr) return;
    area_->traffic.put += part.size * element_bytes_;
    if (scales) {
      reduce::scale(to + part.offset, from, part.size, op_.dtype, factor_);
    } else {
      copy_bytes(to + part.offset, from, part.size * element_bytes_);
    }
  });
  look_ahead(to_put_);
}

void Phase::take_piece() {
  walk(to_take_, [&](const Part& part) {
    const bool is_own = part.run.owner == area_->rank();
    if (part.size == 0 || is_own != (kind_ == PhaseKind::collect)) return;
    if (is_own) return collect(part);
    area_->traffic.taken += part.size * element_bytes_;
    copy_bytes(out_ + part.begin() * element_bytes_, slot(part.run.owner, taken_) + part.offset,
               part.size * element_bytes_);
  });
  look_ahead(to_take_);
}

void Phase::collect(const Part& part) {
  std::byte* const target = runs_->target(part.index, out_, element_bytes_);
  if (target == nullptr) return;
  std::byte* const to = target + part.into * element_bytes_;
  if (part.run.from == kAll) return add_up(part, to);
  area_->traffic.taken += part.size * element_bytes_;
  copy_bytes(to, slot(part.run.from, taken_) + part.offset, part.size * element_bytes_);
}

void Phase::add_up(const Part& part, std::byte* to) {
  const auto ranks = static_cast<size_t>(area_->ranks());
  std::array<const void*, kRanksMax> operands;
  for (int member = 0; member < area_->ranks(); ++member) {
    const bool is_input = member == area_->rank() && op_.op != ReduceOp::premul_sum;
    operands[static_cast<size_t>(member)] =
        is_input ? in_ + part.begin() * element_bytes_ : slot(member, taken_) + part.offset;
  }
  area_->traffic.taken += part.size * element_bytes_ * (ranks - 1);
  if (op_.op == ReduceOp::avg) {
    reduce::average(to, {operands.data(), ranks}, part.size, op_.dtype, factor_, 1);
  } else {
    reduce::reduce_many(to, {operands.data(), ranks}, part.size, op_.dtype, op_.op);
  }
}

}  // namespace nezha::memory
