// GroupKeeper: makes the groups of an engine, keeps those that quicker ranks have announced, brings a
// group's error to its operations, and ends groups.
//
// Contract: owned by the engine, progress lock held.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/common/buffer_pool.h"
#include "engine/common/flight_log.h"
#include "engine/common/options.h"
#include "engine/endpoint/peer_table.h"
#include "engine/flow/early_frames.h"
#include "engine/flow/transfers.h"
#include "engine/group/agenda.h"
#include "engine/group/failures.h"
#include "engine/group/group_table.h"
#include "engine/group/parked_budget.h"
#include "engine/messages/mailbox.h"
#include "engine/operation/operations.h"

namespace nezha::engine {

class GroupKeeper final : public GroupMaker {
 public:
  // The parts of the engine that a GroupKeeper uses.
  struct Parts {
    const EngineOptions& options;
    const Clock& clock;
    BufferPool& pool;
    Agenda& agenda;
    PeerTable& peers;
    GroupTable& groups;
    ParkedBudget& parked;
    FlightLog& flight;
    Failures& failures;
    Transfers& transfers;
    EarlyFrames& early;
    Operations& operations;
  };
  // A group takes so many bytes, and more for each rank of the job (ParkedBudget).
  static constexpr uint64_t kBytesOfGroup = sizeof(Group) + sizeof(Collectives) + sizeof(Mailbox);

  explicit GroupKeeper(const Parts& parts) : parts_(parts) {}

  Result<Group*> create_group(GroupRequest request) override;
  void set_members(Group& group, std::vector<int> members, schedule::AggregationTree tree);
  void retire(uint64_t comm) override;
  // The group of a frame from that peer; null: there is none, and frames of quicker ranks for it are not
  // kept. Sets `refused` when the group would have to be parked and the peer's budget has no room for it.
  Group* find_or_park(uint64_t comm, int peer, bool* refused);
  // The error of a group that failed reaches its operations here and not where it was found, because that
  // may be deep inside one of them. Needs no memory, as it must work when there is none.
  void settle(Group& group) noexcept;
  void settle_all();
  // The group, which has failed, ends.
  void end(Group& group) noexcept;

 private:
  Group& add(uint64_t comm);
  void remove(Group& group) noexcept;
  // Removes the parked groups whose senders are all gone.
  void drop_orphans() noexcept;

  const Parts parts_;
};

}  // namespace nezha::engine
