// Agreement: which members of a communicator go on together, as its survivors come to say with one voice.
//
// Contract: a pure state machine, one on each member; any thread. Members are numbered as in the
// lineage: the communicator that was never shrunk, from which all others of the agreement descend.
//
// Every member that wants a new group states its ballot, which is the dead that it knows of and the
// generation of the group, and its row: the members that it lost. That a member has ended is a fact,
// and everybody who hears of it counts it among the dead. A member that was only lost may be alive and
// have lost others, so nobody is dead for having been lost by one member. Each member looks for the
// largest set that has no broken pair (broken_pairs.h). When the members of this set have stated that
// they heard each other since they began, those in it vote: all others are dead. A member has decided
// when every member alive in its ballot has voted for exactly that ballot. Ballots only grow (union,
// maximum):
//
//   a member dies meanwhile        a member that has not decided yet goes on with a larger ballot; one
//                                  that has hears it, gives its smaller group up, wants the next
//   frames are lost, doubled,      statements only grow, and saying them again changes nothing: a member
//   late                           that waits asks again
//   a member was left out          it hears that it is among the dead: excluded, for good
//   nobody of the largest set can  it is refused, because nobody will tell it
//   be heard by a member
//   a pair of a ballot breaks      a member that voted for it cannot know whether another has decided,
//   after votes for it             which makes the quorum smaller: it wants the next generation, and who
//                                  hears that gives the ballot up or states it as its `base`
//   a member wants the group after it has that one, so where nobody died those who still wait get that
//   the one that others wait for   one, too: a call each. It is over at once
//   a member wants nobody to have  those who wait for that group hear it; those who did not want it yet
//   the group others wait for      are told so when they do: a call each, here, too
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

#include "engine/broken_pairs.h"
#include "engine/member_set.h"

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
  MemberSet exited;   // of the dead, those that are known to have ended
  MemberSet base;     // the dead of the last group that was decided
  MemberSet row;      // the members that it lost
  MemberSet unheard;  // from `ready` on: those that it neither lost nor heard
};

class Agreement {
 public:
  // Without `majority` every part of a partitioned network goes on.
  Agreement(int self, int members, bool majority);

  // Its member wants a group, of `generation` at least. False: another member wanted nobody to have
  // that one, so this wish is over; the next is for a later one.
  bool begin(uint64_t generation);
  // It does not wait any longer. What it said stays said: the others may decide on it.
  void give_up() { open_ = false; }
  // It has the group it wanted, or wants nobody to get it: its next wish is for a later one.
  void close();

  // False: no honest member says this; it was ignored.
  bool heard(const Statement& said, int from);
  // Another member wants nobody to have the group of this generation. True when this ends what its own
  // member waits for.
  bool heard_abort(const Statement& said, int from);
  // Something came from this member.
  void heard_of(int member);
  // `exited`: it has ended; otherwise nothing is known but that nothing comes from it.
  void lost(int member, bool exited);
  // Works out what its member has to say now, and whether it has decided.
  void update();

  bool is_open() const { return open_; }
  // The others count this member among the dead.
  bool is_excluded() const { return excluded_; }
  bool is_decided() const { return open_ && !excluded_ && (overtaken_ || decided_); }
  // No group will have this member: it and those that it reaches have no quorum.
  bool is_refused() const { return open_ && !excluded_ && refused_; }
  // Whether `own()` is to be told to everybody; false the next time.
  bool take_news();
  // What this member said last; generation 0: nothing yet.
  const Statement& own() const { return own_; }
  // What it knows, said or not. Groups of an earlier generation, or with a dead member, are over.
  const Ballot& known() const { return known_; }
  // So are groups with a broken pair.
  const BrokenPairs& pairs() const { return pairs_; }
  // Those alive in `own()`, in order.
  std::vector<int> alive() const;
  // The others among them that have not voted for it, and those of the latter from which nothing came.
  std::vector<int> missing() const;
  std::vector<int> silent() const;
  // Whether something has yet to come from this member since this one began.
  bool needs_to_hear(int member) const;
  // The number of members of which a quorum is taken, and how many at most could go on with this one.
  int voters() const { return size() - base_.count(); }
  int within_reach() const;
  int self() const { return self_; }
  int size() const { return static_cast<int>(stages_.size()); }

 private:
  // No honest member gets there.
  static constexpr uint64_t kGenerationMax = uint64_t{1} << 62;
  // So many wishes are told one by one that they are over; a member that says more holds nobody up.
  static constexpr uint64_t kBehindMax = 16;

  // Of an honest member, that is alive.
  bool is_statement(const Statement& said, int from) const;
  void raise(const Ballot& ballot);
  void note_stage(const Statement& said, int from);
  bool has_quorum(const MemberSet& members, const MemberSet& base) const;
  bool may_have_a_quorum(const MemberSet& members);
  MemberSet candidates() const;
  MemberSet unheard() const;
  void state(Stage stage, const MemberSet& unheard);
  // All but its own member, which it asks for itself.
  bool have_all_reached(Stage stage, const MemberSet& members) const;
  bool has_heard_each_other(const MemberSet& members) const;

  const int self_;
  const bool majority_;
  bool open_ = false;
  bool excluded_ = false;
  bool news_ = false;
  bool decided_ = false;       // by votes
  bool refused_ = false;
  bool overtaken_ = false;     // another member, past `own()`, wants the group after that
  uint64_t least_ = 1;         // the generation of the next group
  MemberSet dead_before_;      // in what this member had said before it began
  MemberSet exited_;
  MemberSet base_;
  BrokenPairs pairs_;
  std::optional<MemberSet> choice_;  // the largest set without a broken pair, while it is known
  Statement own_;
  Ballot known_;
  std::vector<Stage> stages_;         // by member: how far it has come with `known_`
  std::map<int, MemberSet> unheard_;  // by those who are ready and have not heard everybody
  std::vector<bool> heard_;           // by member: since this one began
};

}  // namespace nezha::engine
