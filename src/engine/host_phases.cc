#include "engine/host_phases.h"

#include "engine/group.h"

namespace nezha::engine {

using memory::PhaseKind;

HostPhases::HostPhases(const Group& group, const schedule::Schedule& schedule,
                       const schedule::ChunkMap& map, const memory::Call& call)
    : here_(group.hosts->ranks_of(group.hosts->host_of(group.rank))), schedule_(schedule), map_(map) {
  const memory::Runs& runs = *this;
  const HostAreas& areas = group.areas;
  if (schedule.inside.collects) collect_.emplace(PhaseKind::collect, *areas.collect, runs, call);
  if (schedule.inside.hands_out) hand_out_.emplace(PhaseKind::hand_out, *areas.hand_out, runs, call);
}

memory::Run HostPhases::at(uint32_t chunk) const {
  const schedule::Range range = map_.chunk(chunk, schedule::Side::output);
  return {range.begin, range.size(), schedule_.inside.owners[map_.slice_of(chunk)]};
}

bool HostPhases::advance(uint32_t closed, bool sleeps) {
  bool moved = false;
  if (collect_) moved |= sleeps ? collect_->sleep(0) : collect_->advance(0);
  if (hand_out_) moved |= sleeps ? hand_out_->sleep(closed) : hand_out_->advance(closed);
  return moved;
}

int HostPhases::disagrees() const {
  int member = collect_ ? collect_->disagrees() : -1;
  if (member < 0 && hand_out_) member = hand_out_->disagrees();
  return member < 0 ? -1 : here_[static_cast<size_t>(member)];
}

std::optional<wire::OpDescriptor> HostPhases::said() const {
  const memory::Phase& phase = collect_ && collect_->disagrees() >= 0 ? *collect_ : *hand_out_;
  return phase.said_by(phase.disagrees());
}

void HostPhases::add_awaited(std::vector<int>& members) const {
  for (const auto* phase : {&collect_, &hand_out_}) {
    if (!*phase) continue;
    for (const int member : (*phase)->awaited()) members.push_back(here_[static_cast<size_t>(member)]);
  }
}

}  // namespace nezha::engine
