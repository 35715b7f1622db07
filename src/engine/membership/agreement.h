// Agreement: the survivors of a communicator agree on which of its members go on together.
//
// Contract: a pure state machine, one on each member; any thread. Members are numbered as in the
// lineage: the communicator that was never shrunk, from which all others of the agreement descend.
//
// Every member that wants a new group states its ballot, which is the dead that it knows of and the
// generation of the group, and its row: the members that it lost. That a member has ended is a fact,
// and everybody who hears of it counts it among the dead. A member that was only lost may be alive and
// have lost others, so a loss by one member makes nobody dead. Each member looks for the largest
// set that has no broken pair (broken_pairs.h). When the members of this set have stated that they
// heard each other since they began, they vote for the ballot in which all others are dead. A
// member has decided when every member alive in its ballot has voted for exactly that ballot.
// Ballots only grow (union, maximum):
//
//   a member dies meanwhile        a member that has not decided yet goes on with a larger ballot; one
//                                  that has decided hears of it, gives its group up, wants the next
//   frames are lost, doubled,      statements only grow, and saying them again changes nothing: a member
//   late                           that waits asks again
//   a member was left out          it hears that it is among the dead: excluded, for good
//   nobody of the largest set can  it is refused, because nobody will tell it
//   be heard by a member
//   a pair of a ballot breaks      a member that voted for it cannot know whether another has decided,
//   after votes for it             which makes the quorum smaller. It wants the next generation;
//                                  one that hears this gives the ballot up or states it as `base`
//   a member wants the group after it has the one that others wait for. If nobody died, they get
//   the one that others wait for   that one, too, each for one call, and it is over at once
//   a member wants nobody to have  members that wait for that group hear it; members that did not
//   the group others wait for      want it yet are told when they do. One call of each ends
//
// The largest set is the same for all voters. A voter knows every broken pair of its set's members, so
// the set has no broken pair at all, and it takes pairs that it has not heard of for whole, so no
// larger or lower set without a broken pair exists.
//
// A job does not split. Voters have a quorum of `voters()`: of all members without `base`, the dead of
// the last group that was decided. A quorum is more than half of them, or half and the lowest, or all
// that have not ended. Two quorums of one set have a common member, or all members of one of them have
// ended. A quorum of a set is one of each smaller set around it, too. All members of a decided group
// voted for its dead, so they vote for no group with other members any more. Now take two decided
// groups, the second by a vote of which `base` is older than the first. Its voters are a quorum of a
// set in which the first group had a quorum, so they have a common member, whose two ballots are
// nested. So one group is a part of the other, step by step along all groups that were decided, and
// two groups without a common member cannot both have members that run. It does not matter who knows
// the newest `base`, because an older one asks for more votes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "engine/membership/broken_pairs.h"
#include "engine/membership/member_set.h"

namespace nezha::engine {

struct Ballot {
  uint64_t generation = 0;  // 0: the lineage itself
  MemberSet dead;

  bool operator==(const Ballot&) const = default;
};

// How far a member has come with its ballot.
enum class Stage : uint8_t {
  silent,  // it has not said anything
  wish,    // it wants a group
  ready,   // it has heard, since it began, all members that it wants to go on with
  vote,    // the living of its ballot are its choice
};

struct Statement {
  explicit Statement(int members = 0)
      : ballot{0, MemberSet(members)}, exited(members), base(members), row(members), unheard(members) {}

  Ballot ballot;
  Stage stage = Stage::silent;
  MemberSet exited;   // those of the dead that are known to have ended
  MemberSet base;     // the dead of the last group that was decided
  MemberSet row;      // the members that it lost
  MemberSet unheard;  // from `ready` on: those that it neither lost nor heard
};

class Agreement {
 public:
  // Without `majority` every part of a partitioned network goes on.
  Agreement(int self, int members, bool majority);

  // This member wants a group, of `generation` at least. False: another member wanted nobody to
  // have the group of that generation, so this wish is over; the next is for a later one.
  bool begin(uint64_t generation);
  // This member waits no longer. Its statements stay valid: the others may decide on them.
  void give_up() { open_ = false; }
  // This member has the group that it wanted, or wants nobody to get it: its next wish is for a
  // later generation.
  void close();

  // False: no honest member states this; it was ignored.
  bool on_statement(const Statement& said, int from);
  // Another member wants nobody to have the group of this generation. True: that ends the wish of
  // this member.
  bool heard_abort(const Statement& said, int from);
  // Some frame came from that member, which need not be a statement.
  void heard_of(int member);
  // `exited`: that member has ended; otherwise all that is known is that nothing comes from it.
  void lost(int member, bool exited);
  // Works out what this member has to state now, and whether it has decided.
  void update();

  bool is_open() const { return open_; }
  // The others count this member among the dead.
  bool is_excluded() const { return excluded_; }
  bool is_decided() const { return open_ && !excluded_ && (overtaken_ || decided_); }
  // No group will have this member: it and those that it reaches have no quorum.
  bool is_refused() const { return open_ && !excluded_ && refused_; }
  // Whether `own()` is news that everybody is to be told; false when asked again.
  bool take_news();
  // The last statement of this member; generation 0: it has made none.
  const Statement& own() const { return own_; }
  // The ballot that this member knows of, stated or not. Groups of an earlier generation, or with a
  // dead member, are over.
  const Ballot& known() const { return known_; }
  // Groups with a broken pair are over, too.
  const BrokenPairs& pairs() const { return pairs_; }
  // The members that are alive in `own()`, ascending.
  std::vector<int> alive() const;
  // missing: the other members alive in `own()` that have not voted for its ballot. silent: those
  // of them that have stated nothing and that this member has not lost.
  std::vector<int> missing() const;
  std::vector<int> silent() const;
  // Whether this member, since its wish began, has not heard from that one, which it counts alive.
  bool needs_to_hear(int member) const;
  // voters: the number of members of which a quorum is taken. within_reach: how many members at
  // most could go on with this one.
  int voters() const { return size() - base_.count(); }
  int within_reach() const;
  int self() const { return self_; }
  int size() const { return static_cast<int>(stages_.size()); }

 private:
  // No honest member reaches a higher generation.
  static constexpr uint64_t kGenerationMax = uint64_t{1} << 62;
  // About so many wishes in a row can end in begin() because the others are past them, whatever
  // generation a peer states.
  static constexpr uint64_t kBehindMax = 16;

  // Whether an honest member that is alive can have stated this.
  bool is_statement(const Statement& said, int from) const;
  void raise(const Ballot& ballot);
  void note_stage(const Statement& said, int from);
  bool has_quorum(const MemberSet& members, const MemberSet& base) const;
  bool may_have_a_quorum(const MemberSet& members);
  MemberSet candidates() const;
  MemberSet unheard() const;
  void state(Stage stage, const MemberSet& unheard);
  // Whether all of `members` except this one have come as far as `stage`.
  bool have_all_reached(Stage stage, const MemberSet& members) const;
  bool has_heard_each_other(const MemberSet& members) const;

  const int self_;
  const bool majority_;
  bool open_ = false;
  bool excluded_ = false;
  bool news_ = false;
  bool decided_ = false;       // by votes
  bool refused_ = false;
  bool overtaken_ = false;     // another member has the group of `own()` and wants the next one
  uint64_t least_ = 1;         // the lowest generation of the next wish
  MemberSet dead_before_;      // the dead that this member had stated before its wish began
  MemberSet exited_;
  MemberSet base_;
  BrokenPairs pairs_;
  std::optional<MemberSet> choice_;  // the largest set without a broken pair, while it is known
  Statement own_;
  Ballot known_;
  std::vector<Stage> stages_;         // by member: how far it has come with `known_`
  std::map<int, MemberSet> unheard_;  // by member that is ready: those not heard by it, if any
  std::vector<bool> heard_;           // by member: whether it was heard since this one's wish began
};

}  // namespace nezha::engine
