// Shrinker: communicators of the survivors. Carries the statements of the agreement (agreement.h) between
// ranks, gives up the groups that an agreement has overtaken, and makes the new ones.
//
// Contract
//   Owner    the engine, progress lock held. Groups are made and given up in `run` only, because
//            losses and statements are heard of deep inside of loops over the groups.
//   Errors   of one shrink: `timed_out` naming who did not call it, `aborted`, `peer_lost` when the
//            others gave this rank up or may go on without it, `invalid_argument` when one is under way
//            already.
//
// The agreement belongs to the lineage, not to the group that is shrunk: ranks that have a group already
// and ranks that still wait for it come together again when another one dies. The number of a new group
// follows from lineage and ballot, so no rank has to tell it; frames of quicker ranks are parked.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "rails/policy.h"
#include "engine/membership/agreement.h"
#include "engine/group/group_table.h"
#include "engine/endpoint/peer_links.h"
#include "engine/common/work.h"
#include "wire/control_headers.h"

namespace nezha::engine {

class Agenda;
class Failures;
class PeerTable;
struct EngineOptions;

// The result for which one caller waits. `group` counts when `work` is done without an error.
struct ShrinkCall {
  Work work;
  Group* group = nullptr;
};

class Shrinker {
 public:
  // The parts of the engine that a Shrinker uses.
  struct Parts {
    const EngineOptions& options;
    const GroupTable& groups;
    PeerTable& peers;
    Failures& failures;
    GroupMaker& maker;
    Agenda& agenda;
  };

  explicit Shrinker(const Parts& parts) : parts_(parts) {}

  // Gives the group up on all of its ranks and asks them for one of the survivors. An error return
  // means that nothing was begun and `call` is untouched.
  Status begin(Group& group, std::unique_ptr<rails::Policy> policy, Nanoseconds deadline,
               ShrinkCall& call);
  // Ends the call on this group, here and with `tell` on every rank.
  void cancel(const Group& group, const Status& why, bool tell);
  // Ends every call.
  void out_of_memory(const Status& why) noexcept;

  void on_agree(int peer, const wire::AgreeHeader& header, const std::string& set);
  // `exited`: the peer has ended; otherwise all that is known is that nothing comes from it.
  void lost(int peer, bool exited);
  void tell_again(PeerLinks& links);
  // Sets the ranks (global) from which a call waits for a statement.
  void mark_awaited(RankSet& awaited) const;

  void run(Nanoseconds now);
  Nanoseconds next_wakeup() const { return next_wakeup_; }

 private:
  // Up to so many lineages, those without a group are kept for ranks that still ask.
  static constexpr size_t kEndedMax = 256;

  using Wish = wire::AgreeHeader::Wish;
  using Part = wire::AgreeHeader::Part;

  struct Lineage {
    Lineage(uint64_t lineage, std::vector<int> global_ranks, int self, bool majority)
        : root(lineage), members(std::move(global_ranks)),
          agreement(self, static_cast<int>(members.size()), majority) {}
    int member_of(int peer) const;

    uint64_t root;              // communicator
    std::vector<int> members;   // global ranks
    Agreement agreement;
    std::vector<Ballot> told;   // votes since the last group; each may have led to a group
    std::map<int, Statement> parts;  // by member: a statement whose set of the dead is missing
    uint64_t aborted = 0;       // the last generation that this rank aborted
    bool due = false;           // something was learned
    ShrinkCall* call = nullptr;
    uint64_t parent = 0;        // the communicator that is shrunk
    std::unique_ptr<rails::Policy> policy;
    schedule::CostTable costs;
    Nanoseconds began = kNever;
    Nanoseconds deadline = kNever;
    Nanoseconds ask_at = kNever;
  };

  Lineage* find(uint64_t root);
  // The lineage of a group that this rank has; null: it has none, or does not know its members yet.
  Lineage* adopt(uint64_t root);
  void forget_ended();
  void note_gone(Lineage& lineage) const;
  void send_statement(const Lineage& lineage, PeerLinks& links, Wish wish) const;
  void tell_all(const Lineage& lineage, Wish wish) const;
  // The whole statement, once all of its parts are there; none: it lacks some, or is nonsense.
  static std::optional<Statement> take_part(Lineage& lineage, int member,
                                            const wire::AgreeHeader& header, const std::string& set);
  void set_due(Lineage& lineage);
  void revoke(Lineage& lineage);
  void look_after(Lineage& lineage, Nanoseconds now);
  void listen(Lineage& lineage, Nanoseconds now) const;
  void revoke_broken(const Lineage& lineage, Group& group) const;
  Status refusal(const Lineage& lineage) const;
  void decide(Lineage& lineage);
  int rank_in_parent(const Lineage& lineage, int member) const;
  Status timeout_error(const Lineage& lineage) const;
  void complete(Lineage& lineage, const Status& outcome);
  static uint64_t comm_of(const Lineage& lineage, const Ballot& ballot);

  const Parts parts_;
  std::vector<std::unique_ptr<Lineage>> lineages_;
  Nanoseconds next_wakeup_ = kNever;
};

}  // namespace nezha::engine
