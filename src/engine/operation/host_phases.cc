#include "engine/operation/host_phases.h"

#include "engine/group/group.h"

namespace nezha::engine {

using memory::PhaseKind;

memory::Run HostPhases::Blocks::at(uint32_t index) const {
  const int from = static_cast<int>(index) + (static_cast<int>(index) >= leader_ ? 1 : 0);
  const auto owner = static_cast<size_t>(here_[static_cast<size_t>(from)]);
  const schedule::Range block = map_.blocks->output(owner);
  return {block.begin, block.size(), leader_, from};
}

HostPhases::HostPhases(const Group& group, const HostAreas& areas, const schedule::Schedule& schedule,
                       Operands& operands, const memory::Call& call)
    : here_(group.hosts->ranks_of(group.hosts->host_of(group.rank))), schedule_(schedule),
      operands_(operands) {
  memory::Runs& chunks = *this;
  memory::Runs* collected = &chunks;
  if (schedule.collective == Collective::all_gather && schedule.inside.collects) {
    collected = &blocks_.emplace(here_, schedule.inside.owners[0], operands.map());
  }
  if (schedule.inside.collects) collect_.emplace(PhaseKind::collect, *areas.collect, *collected, call);
  if (schedule.inside.hands_out) hand_out_.emplace(PhaseKind::hand_out, *areas.hand_out, chunks, call);
}

HostPhases::~HostPhases() {
  for (const Kept& kept : kept_) kept.workspace->release();
}

memory::Run HostPhases::at(uint32_t chunk) const {
  const schedule::ChunkMap& map = operands_.map();
  const schedule::Range range = map.chunk(chunk, schedule::Side::output);
  return {range.begin, range.size(), schedule_.inside.owners[map.slice_of(chunk)]};
}

std::byte* HostPhases::target(uint32_t chunk, std::byte*, uint64_t) {
  const schedule::ChunkMap& map = operands_.map();
  const schedule::Range range = map.chunk(chunk, schedule::Side::output);
  if (!schedule_.programs[map.slice_of(chunk)].works_in_workspace()) return operands_.output_at(range);
  if (kept_.empty() || kept_.back().chunk != chunk) {
    Workspace* const made = operands_.make_workspace(chunk);
    if (made == nullptr) return nullptr;
    kept_.push_back({chunk, made});
  }
  return kept_.back().workspace->data();
}

Workspace* HostPhases::acquire(uint32_t chunk) {
  if (kept_.empty() || kept_.front().chunk != chunk) return nullptr;
  Workspace* const workspace = kept_.front().workspace;
  kept_.erase(kept_.begin());
  return workspace;
}

uint32_t HostPhases::collected() const {
  if (is_collected()) return count();
  return blocks_ ? 0 : collect_->through();
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
