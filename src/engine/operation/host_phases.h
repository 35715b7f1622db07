// HostPhases: the phases of one operation inside this host, where its ranks carry them out in memory
// (memory/phase.h), beside the chunks that pass between hosts.
//
// Contract: owned by an Execution, whose chunks are the runs; progress lock held. A chunk may be opened
// when it has been collected, and is handed out when it and all before it are closed. What is collected
// for a chunk that works in a workspace is there before the chunk is open; no more is collected while
// such a chunk waits to be opened. An all_gather collects the blocks of the host's ranks, for its only
// chunk. Members are those of the group.
#pragma once

#include <optional>
#include <vector>

#include "engine/operation/kept_plans.h"
#include "engine/operation/operands.h"
#include "memory/phase.h"
#include "schedule/schedule.h"

namespace nezha::engine {

struct Group;

class HostPhases final : private memory::Runs {
 public:
  HostPhases(const Group& group, const HostAreas& areas, const schedule::Schedule& schedule,
             Operands& operands, const memory::Call& call);
  ~HostPhases() override;
  HostPhases(const HostPhases&) = delete;
  HostPhases& operator=(const HostPhases&) = delete;

  // Moves the phases as far as they go; the chunks before `closed` are closed. `sleeps`: they first
  // ask the ranks that they wait for to wake this one. True: something moved.
  bool advance(uint32_t closed, bool sleeps);
  bool is_over() const { return is_collected() && (!hand_out_ || hand_out_->is_over()); }
  // How many chunks, from the first on, may be opened.
  uint32_t collected() const;
  // The workspace that was filled for that chunk, which is being opened; null: what was collected
  // is in the output, or nothing was.
  Workspace* acquire(uint32_t chunk);
  // disagrees: a member that makes another call; -1: none does. said: the call of that member.
  int disagrees() const;
  std::optional<wire::OpDescriptor> said() const;
  // Adds the members from which the phases still need something.
  void add_awaited(std::vector<int>& members) const;

 private:
  // The blocks of all ranks of the host except its leader, which has its own block already.
  class Blocks final : public memory::Runs {
   public:
    Blocks(const std::vector<int>& here, int leader, const schedule::ChunkMap& map)
        : here_(here), leader_(leader), map_(map) {}
    uint32_t count() const override { return static_cast<uint32_t>(here_.size()) - 1; }
    memory::Run at(uint32_t index) const override;

   private:
    const std::vector<int>& here_;
    const int leader_;
    const schedule::ChunkMap& map_;
  };
  struct Kept {
    uint32_t chunk;
    Workspace* workspace;
  };

  bool is_collected() const { return !collect_ || collect_->is_over(); }
  uint32_t count() const override { return operands_.map().chunk_count(); }
  memory::Run at(uint32_t chunk) const override;
  std::byte* target(uint32_t chunk, std::byte* output, uint64_t element_bytes) override;
  bool has_room() const override { return kept_.empty() || kept_.front().chunk >= collected(); }

  const std::vector<int>& here_;  // the members that are on this host
  const schedule::Schedule& schedule_;
  Operands& operands_;
  std::optional<Blocks> blocks_;  // of an all_gather; otherwise sums are collected
  std::vector<Kept> kept_;        // workspaces of chunks that are not open yet
  std::optional<memory::Phase> collect_;
  std::optional<memory::Phase> hand_out_;
};

}  // namespace nezha::engine
