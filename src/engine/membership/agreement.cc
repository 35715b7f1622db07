#include "engine/membership/agreement.h"

#include <algorithm>

namespace nezha::engine {

Agreement::Agreement(int self, int members, bool majority)
    : self_(self), majority_(majority), exited_(members), base_(members), pairs_(members),
      own_(members), known_(own_.ballot), stages_(static_cast<size_t>(members)),
      heard_(static_cast<size_t>(members)) {}

// ------------------------------------------------------------------------------ what its member wants

bool Agreement::begin(uint64_t generation) {
  const uint64_t next = std::max(generation, least_);
  // The others are past generation `next`, for which this member has stated no wish.
  if (own_.ballot.generation < next && next < known_.generation) {
    least_ = std::max(next + 1, known_.generation - std::min(known_.generation, kBehindMax));
    return false;
  }
  Ballot wanted = known_;
  wanted.generation = std::max(known_.generation, next);
  open_ = true;
  overtaken_ = false;
  dead_before_ = own_.ballot.dead;
  std::fill(heard_.begin(), heard_.end(), false);
  raise(wanted);
  state(Stage::wish, MemberSet(size()));  // also when nothing is new: somebody may have missed it
  return true;
}

void Agreement::close() {
  if (decided_) base_ = own_.ballot.dead;
  open_ = decided_ = false;
  least_ = own_.ballot.generation + 1;
}

// -------------------------------------------------------------------------------------- what it hears

bool Agreement::is_statement(const Statement& said, int from) const {
  const uint64_t generation = said.ballot.generation;
  if (from == self_ || generation == 0 || generation > kGenerationMax) return false;
  if (said.ballot.dead.has(from) || said.row.has(from)) return false;
  return said.exited.is_within(said.ballot.dead) && said.base.is_within(said.ballot.dead);
}

bool Agreement::on_statement(const Statement& said, int from) {
  if (!is_statement(said, from)) return false;
  if (known_.dead.has(from)) return true;  // ignored: a member counted dead has no vote
  if (said.ballot.dead.has(self_)) {
    excluded_ = true;
    return true;
  }
  exited_.add(said.exited);
  base_.add(said.base);
  // Nobody died, so the group that the others have is this member's, too. Where somebody died, the
  // later group is the better answer.
  if (open_ && said.ballot.generation > own_.ballot.generation && said.ballot.dead == own_.ballot.dead &&
      own_.ballot.dead == dead_before_ &&
      has_quorum(MemberSet::all(size()).without(own_.ballot.dead), base_)) {
    overtaken_ = true;
  }
  raise(said.ballot);
  if (pairs_.add(from, said.row) || !majority_) choice_.reset();
  heard_[static_cast<size_t>(from)] = true;
  note_stage(said, from);
  return true;
}

bool Agreement::heard_abort(const Statement& said, int from) {
  if (!is_statement(said, from) || known_.dead.has(from)) return false;
  const bool ends = open_ && said.ballot.generation >= own_.ballot.generation;
  if (ends) close();
  Ballot next = known_;
  next.generation = std::max(next.generation, said.ballot.generation + 1);
  raise(next);
  return ends;
}

void Agreement::heard_of(int member) { heard_[static_cast<size_t>(member)] = true; }

void Agreement::lost(int member, bool exited) {
  if (member == self_) return;
  if (exited) {
    exited_.add(member);
    Ballot more = known_;
    more.dead.add(member);
    return raise(more);
  }
  MemberSet one(size());
  one.add(member);
  if (pairs_.add(self_, one)) choice_.reset();
}

void Agreement::raise(const Ballot& ballot) {
  Ballot more = known_;
  more.generation = std::max(more.generation, ballot.generation);
  more.dead.add(ballot.dead);
  if (more == known_) return;
  const bool anew = more.generation > known_.generation;
  for (Stage& stage : stages_) stage = anew ? Stage::silent : std::min(stage, Stage::ready);
  if (anew) unheard_.clear();
  known_ = std::move(more);
  choice_.reset();
}

void Agreement::note_stage(const Statement& said, int from) {
  if (said.ballot.generation < known_.generation) return;
  Stage& stage = stages_[static_cast<size_t>(from)];
  const Stage now = said.ballot == known_ ? said.stage : std::min(said.stage, Stage::ready);
  if (now < stage) return;  // an older statement, which came late
  stage = now;
  if (said.unheard.is_empty()) {
    unheard_.erase(from);
  } else {
    unheard_.insert_or_assign(from, said.unheard);
  }
}

// ---------------------------------------------------------------------------------- what it concludes

bool Agreement::has_quorum(const MemberSet& members, const MemberSet& base) const {
  if (!majority_) return true;
  const MemberSet voters = MemberSet::all(size()).without(base);
  if (voters.without(members).is_within(exited_)) return true;
  const int twice = 2 * members.count();
  return twice > voters.count() || (twice == voters.count() && members.has(voters.lowest()));
}

// Without `majority_`, members that nobody on this side of a partition reaches are no candidates.
MemberSet Agreement::candidates() const {
  MemberSet candidates = MemberSet::all(size()).without(known_.dead);
  if (majority_) return candidates;
  const MemberSet own_row = pairs_.row(self_);
  MemberSet unreached = own_row;
  candidates.each([&](int member) {
    if (unreached.is_empty() || own_row.has(member)) return;
    if (stages_[static_cast<size_t>(member)] != Stage::silent) unreached.keep_common(pairs_.row(member));
  });
  candidates.remove(unreached);
  return candidates;
}

bool Agreement::needs_to_hear(int member) const {
  return member != self_ && !heard_[static_cast<size_t>(member)] && !known_.dead.has(member);
}

MemberSet Agreement::unheard() const {
  MemberSet members(size());
  for (int member = 0; member < size(); ++member) {
    if (needs_to_hear(member)) members.add(member);
  }
  members.remove(pairs_.row(self_));
  return members;
}

bool Agreement::have_all_reached(Stage stage, const MemberSet& members) const {
  bool all = true;
  members.each([&](int member) {
    all = all && (member == self_ || stages_[static_cast<size_t>(member)] >= stage);
  });
  return all;
}

bool Agreement::has_heard_each_other(const MemberSet& members) const {
  return have_all_reached(Stage::ready, members) &&
         std::none_of(unheard_.begin(), unheard_.end(), [&](const auto& each) {
           return members.has(each.first) && each.second.meets(members);
         });
}

void Agreement::state(Stage stage, const MemberSet& unheard) {
  own_.ballot = known_;
  own_.stage = stage;
  own_.exited = exited_;
  own_.base = base_;
  own_.row = pairs_.row(self_);
  own_.unheard = unheard;
  news_ = true;
}

// One of `members` may have decided on the ballot that this member voted for, which makes the
// quorum smaller: its next statement says so (`base`).
bool Agreement::may_have_a_quorum(const MemberSet& members) {
  if (has_quorum(members, base_)) return true;
  if (!members.has(self_) || !has_quorum(members, known_.dead)) return false;
  if (own_.stage == Stage::vote && own_.ballot == known_) {
    raise({known_.generation + 1, known_.dead});
    choice_ = members;
  }
  return !have_all_reached(Stage::wish, members);
}

void Agreement::update() {
  decided_ = refused_ = false;
  if (!open_ || overtaken_ || excluded_) return;
  if (!choice_) choice_ = pairs_.largest(candidates());
  const MemberSet choice = *choice_;
  const MemberSet row = pairs_.row(self_);
  const MemberSet unheard = this->unheard();
  const bool is_mine = choice.has(self_);
  refused_ = !may_have_a_quorum(choice) || (!is_mine && choice.is_within(row));
  Stage stage = unheard.meets(choice) ? Stage::wish : Stage::ready;
  const bool may_vote = is_mine && has_quorum(choice, base_);
  if (stage == Stage::ready && may_vote && has_heard_each_other(choice)) {
    stage = Stage::vote;
    raise({known_.generation, MemberSet::all(size()).without(choice)});
    choice_ = choice;
  }
  const bool goes_on = own_.ballot == known_;
  if (goes_on) stage = std::max(stage, own_.stage);
  // Others may know of more broken pairs and choose members that this one does not.
  const bool is_newly_heard = (own_.unheard.meets(choice) && !unheard.meets(choice)) ||
                              (unheard.is_empty() && !own_.unheard.is_empty());
  if (!goes_on || stage != own_.stage || !(row == own_.row) || is_newly_heard) {
    state(stage, stage >= Stage::ready ? unheard : MemberSet(size()));
  }
  decided_ = own_.stage == Stage::vote &&
             have_all_reached(Stage::vote, MemberSet::all(size()).without(known_.dead));
}

bool Agreement::take_news() {
  const bool news = news_ && open_;
  news_ = false;
  return news;
}

std::vector<int> Agreement::alive() const {
  std::vector<int> members;
  MemberSet::all(size()).without(own_.ballot.dead).each([&](int member) { members.push_back(member); });
  return members;
}

std::vector<int> Agreement::missing() const {
  std::vector<int> members;
  for (const int member : alive()) {
    const bool voted = stages_[static_cast<size_t>(member)] == Stage::vote && own_.ballot == known_;
    if (member != self_ && !voted) members.push_back(member);
  }
  return members;
}

std::vector<int> Agreement::silent() const {
  std::vector<int> members = missing();
  std::erase_if(members, [&](int member) {
    return stages_[static_cast<size_t>(member)] != Stage::silent || own_.row.has(member);
  });
  return members;
}

int Agreement::within_reach() const {
  const MemberSet reached = candidates().without(pairs_.row(self_));
  return choice_ ? std::min(reached.count(), choice_->count()) : reached.count();
}

}  // namespace nezha::engine
