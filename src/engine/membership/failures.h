// Failures: which ranks are gone and which groups have failed, why, and who is told.
//
// Contract
//   Owner    the engine; progress lock held.
//   Errors   the first one of a group counts. It is kept in the group and told to its other ranks here;
//            its operations hear of it from the engine, because it may be found deep inside one.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/common/buffer_pool.h"
#include "engine/observer/diagnostics.h"
#include "engine/group/group_table.h"
#include "engine/common/options.h"
#include "engine/endpoint/peer_table.h"

namespace nezha::engine {

class MissingConnections;
class Shrinker;
class Transfers;

class Failures {
 public:
  Failures(const EngineOptions& options, const GroupTable& groups, const PeerTable& peers,
           const BufferPool& pool, Diagnostics& diagnostics, Transfers& transfers,
           MissingConnections& missing, Shrinker& shrinker)
      : options_(options), groups_(groups), peers_(peers), pool_(pool), diagnostics_(diagnostics),
        transfers_(transfers), missing_(missing), shrinker_(shrinker) {}

  // Fails every operation of the group, here and with `tell` on its other ranks.
  void fail(Group& group, const Status& why, bool tell);
  void fail_exhausted(Group& group, size_t bytes);
  // A failure frame about this group came from that peer.
  void heard(Group& group, int peer, const wire::FrameHeader& header, const std::string& text);
  // A heartbeat of that peer arrived. Its header says in which operation the peer is, so that ranks which
  // make different calls get an error although no data flows between them.
  void heard_progress(int peer, const wire::FrameHeader& header);

  // The peer is lost: every group that it is a member of fails. `exited`: its process is known to
  // have ended; otherwise it may go on, with others.
  void lost(int peer, const Status& why, bool exited);
  // The peer left in order: groups fail that still need it. Everything that it sent before is here.
  void left(int peer);
  // The group is about to begin an operation, for which it needs all of its ranks.
  void check_presence(Group& group, const OpRequest& request);
  // Whether a rank describes an operation as this one does; the group fails if not.
  bool check_descriptor(Group& group, uint64_t op_seq, const wire::OpDescriptor& ours, int global_rank,
                        const wire::OpDescriptor& theirs);
  // A member makes another call, as it says in the host's memory; no `theirs`: that cannot be read.
  void disagree(Group& group, const Execution& execution, int member,
                const std::optional<wire::OpDescriptor>& theirs);

  // Some operation has to be over by `deadline`.
  void expect_by(Nanoseconds deadline) { next_deadline_ = std::min(next_deadline_, deadline); }
  void check_deadlines(Nanoseconds now);
  Nanoseconds next_deadline() const { return next_deadline_; }

  // Tells all ranks of a group that it has failed, the first time or again. With connections on
  // demand it tells the ranks that are connected, which tell others, and so many more that
  // everybody is reached.
  void tell(const Group& group);
  // A connection was lost, or made: failures, credits and statements of agreements that a lost one
  // may not have carried are told again. It makes no difference how often they are heard.
  void tell_again(PeerLinks& links);
  // The group is being destroyed: members that are not connected yet hear of its failure later.
  void keep_untold(const Group& group);

 private:
  // The failure of a group that was destroyed.
  struct Untold {
    uint64_t comm = 0;
    Status why;
    std::vector<int> global_ranks;
  };

  void fail_parked(int peer);
  static void tell(uint64_t comm, const Status& why, PeerLinks& links);
  Status deadline_error(const Group& group, const Execution& execution) const;

  const EngineOptions& options_;
  const GroupTable& groups_;
  const PeerTable& peers_;
  const BufferPool& pool_;
  Diagnostics& diagnostics_;
  Transfers& transfers_;
  MissingConnections& missing_;
  Shrinker& shrinker_;
  bool any_gone_ = false;  // some peer is gone
  std::vector<Untold> untold_;
  Nanoseconds next_deadline_ = kNever;
};

}  // namespace nezha::engine
