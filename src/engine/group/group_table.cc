#include "engine/group/group_table.h"

#include <algorithm>

namespace nezha::engine {

Group& GroupTable::add(std::unique_ptr<Group> group) {
  groups_.reserve(groups_.size() + 1);
  if (2 * (groups_.size() + 1) >= slots_.size()) {
    slots_ = std::vector<Slot>(2 * slots_.size());
    for (const auto& each : groups_) sort_in(*each);
  }
  sort_in(*group);
  groups_.push_back(std::move(group));
  return *groups_.back();
}

void GroupTable::sort_in(Group& group) {
  size_t at = home_of(group.comm);
  while (slots_[at].group != nullptr) at = (at + 1) & (slots_.size() - 1);
  slots_[at] = {group.comm, &group};
}

// Slots behind the hole move up if they are there because the places before them were taken.
void GroupTable::remove(const Group& group) noexcept {
  const size_t last = slots_.size() - 1;
  size_t hole = home_of(group.comm);
  while (slots_[hole].group != &group) hole = (hole + 1) & last;
  for (size_t at = (hole + 1) & last; slots_[at].group != nullptr; at = (at + 1) & last) {
    if (((at - home_of(slots_[at].comm)) & last) < ((at - hole) & last)) continue;
    slots_[hole] = slots_[at];
    hole = at;
  }
  slots_[hole] = {};
  std::erase_if(groups_, [&](const auto& other) { return other.get() == &group; });
}

}  // namespace nezha::engine
