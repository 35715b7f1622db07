// Group: one communicator as the engine sees it: members, operations in order, credits, early
// arrivals.
//
// Contract: owned by the engine, touched only with the loop's progress lock held.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

#include "base/status.h"
#include "rails/policy.h"
#include "engine/common/buffer_pool.h"
#include "engine/common/rank_set.h"
#include "engine/group/constants.h"
#include "engine/group/group_work.h"
#include "schedule/aggregation.h"
#include "schedule/hosts.h"
#include "schedule/plan.h"
#include "transport/connection.h"

namespace nezha::engine {

// The operation of which a rank last spoke, in one group (Member::said) or any (Diagnostics).
struct Progress {
  Nanoseconds at = 0;     // 0: never
  bool open = false;      // false: the operation is over there; in Diagnostics: none is open there
  uint64_t comm = 0;
  uint64_t op_seq = 0;
  wire::OpDescriptor op;
  int waits_for = -1;     // global rank; -1: nobody
  bool known = false;     // only in Diagnostics: the rank has made a call
};

// Accounting with one member. Every frame costs its payload and its header.
struct Member {
  int global_rank = 0;
  uint64_t sent = 0;       // cost of the frames that we sent to it, cumulative
  uint64_t credited = 0;   // the part of `sent` that it has consumed
  uint64_t consumed = 0;   // cost of its frames that we consumed, cumulative
  uint64_t told = 0;       // the part of `consumed` that we have told it
  Progress said;                 // the latest of its operations of which it spoke
  uint64_t compared = UINT64_MAX;  // its operation that was compared with ours
  uint32_t held = 0;             // its frames that landed and wait for their round
  transport::WorkQueue blocked;  // out of credit, in the order of posting
};

// A frame that arrived before its operation or chunk was open here.
struct EarlyFrame final : transport::EarlyArrival {
  // The frame that lands there; null: none does.
  static EarlyFrame* of(const transport::Landing& landing) {
    return static_cast<EarlyFrame*>(landing.early);
  }
  using Links = std::array<EarlyFrame*, kEarlyLevels>;
  Links next{};
  Buffer self;    // the memory of this record
  Buffer buffer;  // the payload
};
static_assert(sizeof(EarlyFrame) <= kBufferBytesMin);

// Early frames in the order of their identities: a skip list, in which a frame is found, put and taken in
// a number of steps that grows with the logarithm of how many there are, whatever identities a peer
// chooses. It needs no memory beside the frames.
class EarlyStore {
 public:
  bool empty() const { return heads_[0] == nullptr; }
  void put(EarlyFrame& frame);
  // Unlinks and returns one frame of the chunk; null when there is none.
  EarlyFrame* pop(uint64_t op_seq, uint32_t chunk);
  // Whether a frame of this transfer from this rank (global) is here already.
  bool holds(const wire::FrameHeader& header, int global_rank) const;
  // Unlinks and returns any frame.
  EarlyFrame* take_any();
  // The first frame of the operation for which `wanted(frame)` holds, or null. Looks at frames of
  // that operation only.
  template <class Wanted>
  const EarlyFrame* find(uint64_t op_seq, Wanted wanted) const {
    const EarlyFrame* frame = first_from({op_seq, 0, 0, 0, -1});
    for (; frame != nullptr && frame->header.op_seq == op_seq; frame = frame->next[0]) {
      if (wanted(*frame)) return frame;
    }
    return nullptr;
  }

 private:
  using Links = EarlyFrame::Links;
  // Operation, chunk, stage, slot and global rank.
  using Identity = std::tuple<uint64_t, uint32_t, uint16_t, uint16_t, int>;
  static Identity identity_of(const wire::FrameHeader& header, int global_rank) {
    return {header.op_seq, header.chunk, header.stage, header.slot, global_rank};
  }
  const EarlyFrame* first_from(const Identity& identity) const;
  // By level, the links behind which a frame of this identity would be put, after its equals or not.
  std::array<Links*, kEarlyLevels> path_to(const Identity& identity, bool after_equals);
  int random_height();

  Links heads_{};
  uint64_t random_ = reinterpret_cast<uintptr_t>(this);  // no peer knows it
};

struct GroupCounters {
  uint64_t operations = 0;
  uint64_t early_frames = 0;
  uint64_t duplicates = 0;
};

struct Group {
  Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  uint64_t comm = 0;
  bool is_created = false;          // false: only frames of it have arrived so far
  // The bytes charged to one peer until the group is created (parked_budget.h); the first entry is
  // that of the peer whose frame opened the group.
  struct Parked {
    int peer = 0;          // global rank
    uint64_t bytes = 0;
    uint64_t opening = 0;  // the part of `bytes` that is for the group itself
  };
  std::vector<Parked> parked;
  uint64_t lineage = 0;             // the communicator that shrink() made it from; itself otherwise
  uint64_t generation = 0;          // of its ballot in the lineage (engine/membership/agreement.h)
  int rank = 0;                     // mine, in this communicator
  std::vector<Member> members;      // by rank in this communicator
  RankSet askers;                   // members that wait for an acknowledgement or a credit
  std::vector<int> rank_of_global;  // -1: not a member
  schedule::AggregationTree tree;   // empty where there are no nodes
  std::unique_ptr<const schedule::Hosts> hosts;  // of the members; null where ranks name no hosts
  uint64_t credit_bytes = 0;
  uint64_t next_op_seq = 0;
  EarlyStore early;
  std::unique_ptr<GroupWork> collectives;  // operation/collectives.h
  std::unique_ptr<GroupWork> messages;     // messages/mailbox.h
  std::vector<uint64_t> early_cost;  // by global rank: cost of its frames in the early store
  Status failed;                    // after the first error the group refuses work
  bool settled = true;              // that error has reached every operation (Agenda::settle)
  bool due = false;                 // Agenda::progress
  bool is_leaving = false;          // it is being destroyed here
  std::unique_ptr<rails::Policy> policy;
  schedule::CostTable costs;
  GroupCounters counters;

  // Both kinds of its work.
  std::array<GroupWork*, 2> works() const { return {collectives.get(), messages.get()}; }
  bool is_idle() const { return collectives->is_idle() && messages->is_idle(); }
  int world_size() const { return static_cast<int>(members.size()); }
  bool has_nodes() const { return !tree.parent.empty(); }
  // The number of members with data, which nodes are not.
  int ranks() const { return has_nodes() ? tree.ranks : world_size(); }
  bool is_node() const { return rank >= ranks(); }
  bool may_send(const Member& member, uint64_t cost) const {
    const uint64_t outstanding = member.sent - member.credited;
    return outstanding == 0 || outstanding + cost <= credit_bytes;
  }
};

inline uint64_t frame_cost(uint32_t payload_bytes) { return wire::kHeaderBytes + payload_bytes; }

}  // namespace nezha::engine
