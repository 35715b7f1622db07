// Failures: which groups have failed, why, and who is told.
//
// Contract
//   Owner    the engine; progress lock held.
//   Errors   the first one of a group counts. It is kept in the group and told to its other ranks here;
//            its operations hear of it from the engine, because it may be found deep inside one.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/common/buffer_pool.h"
#include "engine/common/options.h"
#include "engine/endpoint/peer_table.h"
#include "engine/group/agenda.h"
#include "engine/group/group_table.h"
#include "wire/control_headers.h"

namespace nezha::engine {

class Failures {
 public:
  Failures(const EngineOptions& options, const GroupTable& groups, const PeerTable& peers,
           const BufferPool& pool, Agenda& agenda)
      : options_(options), groups_(groups), peers_(peers), pool_(pool), agenda_(agenda) {}

  // Fails every operation of the group, here and with `tell` on its other ranks.
  void fail(Group& group, const Status& why, bool tell);
  void fail_exhausted(Group& group, size_t bytes);
  // A failure frame about this group came from that peer.
  void on_failure(Group& group, int peer, const wire::FailureHeader& header, const std::string& text);

  // Some operation has to be over by `deadline`.
  void expect_by(Nanoseconds deadline) { next_deadline_ = std::min(next_deadline_, deadline); }
  void check_deadlines(Nanoseconds now);
  Nanoseconds next_deadline() const { return next_deadline_; }

  // Tells all ranks of a group that it has failed, the first time or again. With connections on
  // demand it tells the ranks that are connected, which tell others, and so many more that
  // everybody is reached.
  void tell_members(const Group& group);
  // A connection with the peer was lost, or made: failures and credits that a lost one may not have
  // carried are told again.
  void tell_again(PeerLinks& links);
  // The group is being destroyed: members that are not connected yet hear of its failure later.
  void keep_untold(const Group& group);
  // All members are connected: nobody hears of failures later.
  void forget_untold() { untold_.clear(); }

 private:
  // The failure of a group that was destroyed.
  struct Untold {
    uint64_t comm = 0;
    Status why;
    std::vector<int> global_ranks;
  };

  static void send_failure(uint64_t comm, const Status& why, PeerLinks& links);

  const EngineOptions& options_;
  const GroupTable& groups_;
  const PeerTable& peers_;
  const BufferPool& pool_;
  Agenda& agenda_;
  std::vector<Untold> untold_;
  Nanoseconds next_deadline_ = kNever;
};

}  // namespace nezha::engine
