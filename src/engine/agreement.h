// Agreement: which members of a communicator are dead, as its survivors come to say with one voice.
//
// Contract: a pure state machine, one on each member; any thread. Members are numbered as in the
// lineage: the communicator that was never shrunk, from which all others of the agreement descend.
//
// Every member that wants a new group floods its ballot: what it knows of the dead, and the generation
// of the group it wants. Whoever hears more than it knew says more. It has decided when every member
// alive in its ballot has said exactly that ballot. Ballots only grow (union, maximum), so two members
// that count each other among the living decide on the same one, or one after the other:
//
//   a member dies in mid-agreement      who has not decided yet goes on with a larger ballot; who has
//                                       hears it, gives its smaller group up and wants the next
//   frames are lost, doubled, late      only the latest ballot counts, and saying it again changes
//                                       nothing: whoever waits asks again
//   a member was given up by mistake    it hears that it is among the dead: excluded, for good
//   a member wants the group after the  it has that one, so where nobody died who still waits gets that
//   one that others wait for            one, too: a call each. It is over at once
//   a member wants nobody to have the   who waits for that group hears it; who did not want it yet is
//   group that others wait for          told so when it does: a call each, here, too
//
// There is no quorum: when a network falls into two halves, both go on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nezha::engine {

struct Ballot {
  uint64_t generation = 0;  // 0: the lineage itself
  std::string dead;         // member m: bit m % 8 of byte m / 8

  bool has(int member) const {
    const auto at = static_cast<size_t>(member);
    return (static_cast<uint8_t>(dead[at / 8]) >> (at % 8) & 1) != 0;
  }
  void add(int member) {
    const auto at = static_cast<size_t>(member);
    dead[at / 8] = static_cast<char>(static_cast<uint8_t>(dead[at / 8]) | 1U << (at % 8));
  }
  bool operator==(const Ballot&) const = default;
};

class Agreement {
 public:
  Agreement(int self, int members);

  // Its member wants a group, of `generation` at least. False: another member wanted nobody to have
  // that one, so this wish is over; the next is for a later one.
  bool begin(uint64_t generation);
  // It does not wait any longer. What it said stays said: the others may decide on it.
  void give_up() { open_ = false; }
  // It has the group it wanted, or wants nobody to get it: its next wish is for a later one.
  void close();

  // False: no honest member says this; it was ignored.
  bool heard(const Ballot& ballot, int from);
  // Another member wants nobody to have the group of this generation. True when this ends what its own
  // member waits for.
  bool heard_abort(const Ballot& ballot, int from);
  void lost(int member);

  bool is_open() const { return open_; }
  // The others count this member among the dead.
  bool is_excluded() const { return excluded_; }
  bool is_decided() const;
  // Whether `own()` is to be told to everybody; false the next time.
  bool take_news();
  // What this member said last; generation 0: nothing yet.
  const Ballot& own() const { return own_; }
  // What it knows, said or not. Groups of an earlier generation, or with a dead member, are over.
  const Ballot& known() const { return known_; }
  // The living that have not said `own()`, in order.
  std::vector<int> missing() const;
  // Those alive in `own()`, in order.
  std::vector<int> alive() const;
  int self() const { return self_; }
  int size() const { return static_cast<int>(agrees_.size()); }

 private:
  // No honest member gets there.
  static constexpr uint64_t kGenerationMax = uint64_t{1} << 62;
  // So many wishes are told one by one that they are over; a member that says more holds nobody up.
  static constexpr uint64_t kBehindMax = 16;

  // Of an honest member, that is alive.
  bool is_ballot(const Ballot& ballot, int from) const;
  void raise(const Ballot& ballot);
  void publish();

  int self_;
  bool open_ = false;
  bool excluded_ = false;
  bool news_ = false;
  bool overtaken_ = false;     // another member, past `own()`, wants the group after that
  uint64_t least_ = 1;         // the generation of the next group
  std::string dead_before_;    // in what this member had said before it began
  Ballot own_;
  Ballot known_;
  std::vector<bool> agrees_;   // by member: its last ballot was `known_`
};

}  // namespace nezha::engine
