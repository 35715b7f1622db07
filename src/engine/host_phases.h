// HostPhases: the phases of one operation inside this host, where its ranks carry them out in memory
// (memory/phase.h), beside the chunks that pass between hosts.
//
// Contract: owned by an Execution, whose chunks are the runs; progress lock held. A chunk may be opened
// when it has been collected, and is handed out when it and all before it are closed. Members are those
// of the group.
#pragma once

#include <optional>
#include <vector>

#include "memory/phase.h"
#include "schedule/chunk_map.h"
#include "schedule/schedule.h"

namespace nezha::engine {

struct Group;

class HostPhases final : private memory::Runs {
 public:
  HostPhases(const Group& group, const schedule::Schedule& schedule, const schedule::ChunkMap& map,
             const memory::Call& call);
  HostPhases(const HostPhases&) = delete;
  HostPhases& operator=(const HostPhases&) = delete;

  // As far as they go; chunks before `closed` are. Asked for a sleep, they say first who is to wake this
  // rank. True: something moved.
  bool advance(uint32_t closed, bool sleeps);
  bool is_over() const { return is_collected() && (!hand_out_ || hand_out_->is_over()); }
  // The others of the host owe this rank what it needs to go on.
  bool is_collected() const { return !collect_ || collect_->is_over(); }
  // Chunks that may be opened, from the first on.
  uint32_t collected() const { return collect_ ? collect_->through() : count(); }
  // A member whose call is another one, and what it calls; -1: none.
  int disagrees() const;
  std::optional<wire::OpDescriptor> said() const;
  // Adds the members of whom the rest needs something.
  void add_awaited(std::vector<int>& members) const;

 private:
  uint32_t count() const override { return map_.chunk_count(); }
  memory::Run at(uint32_t chunk) const override;

  const std::vector<int>& here_;  // the members that are on this host
  const schedule::Schedule& schedule_;
  const schedule::ChunkMap& map_;
  std::optional<memory::Phase> collect_;
  std::optional<memory::Phase> hand_out_;
};

}  // namespace nezha::engine
