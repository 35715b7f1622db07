#include "engine/group_table.h"

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

void GroupTable::remove(const Group& group) noexcept {
  std::erase_if(groups_, [&](const auto& other) { return other.get() == &group; });
  std::fill(slots_.begin(), slots_.end(), Slot());
  for (const auto& each : groups_) sort_in(*each);
}

void GroupTable::retire(uint32_t comm) {
  retired_.insert(std::lower_bound(retired_.begin(), retired_.end(), comm), comm);
}

bool GroupTable::is_retired(uint32_t comm) const {
  return std::binary_search(retired_.begin(), retired_.end(), comm);
}

}  // namespace nezha::engine
