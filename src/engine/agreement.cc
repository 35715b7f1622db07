#include "engine/agreement.h"

#include <algorithm>

namespace nezha::engine {

Agreement::Agreement(int self, int members)
    : self_(self), agrees_(static_cast<size_t>(members)) {
  own_.dead.assign((static_cast<size_t>(members) + 7) / 8, '\0');
  known_ = own_;
}

bool Agreement::begin(uint64_t generation) {
  const uint64_t next = std::max(generation, least_);
  // The others are past that one without a word of this member.
  if (own_.generation < next && next < known_.generation) {
    least_ = std::max(next + 1, known_.generation - std::min(known_.generation, kBehindMax));
    return false;
  }
  Ballot wanted = known_;
  wanted.generation = std::max(known_.generation, next);
  open_ = true;
  overtaken_ = false;
  dead_before_ = own_.dead;
  raise(wanted);
  publish();
  news_ = true;  // also when nothing is new: somebody may have missed it
  return true;
}

void Agreement::close() {
  open_ = false;
  least_ = own_.generation + 1;
}

bool Agreement::is_ballot(const Ballot& ballot, int from) const {
  if (from == self_ || ballot.generation == 0 || ballot.generation > kGenerationMax) return false;
  if (ballot.dead.size() != known_.dead.size()) return false;
  const auto unused = 8 * ballot.dead.size() - agrees_.size();
  return static_cast<uint8_t>(ballot.dead.back()) < 1U << (8 - unused) && !ballot.has(from);
}

bool Agreement::heard(const Ballot& ballot, int from) {
  if (!is_ballot(ballot, from)) return false;
  if (known_.has(from)) return true;  // what the dead say holds up the living
  if (ballot.has(self_)) {
    excluded_ = true;
    return true;
  }
  // Where somebody died, the later group is the better answer.
  if (open_ && ballot.generation > own_.generation && ballot.dead == own_.dead &&
      own_.dead == dead_before_) {
    overtaken_ = true;
  }
  raise(ballot);
  if (ballot == known_) agrees_[static_cast<size_t>(from)] = true;
  return true;
}

bool Agreement::heard_abort(const Ballot& ballot, int from) {
  if (!is_ballot(ballot, from) || known_.has(from)) return false;
  const bool ends = open_ && ballot.generation >= own_.generation;
  if (ends) close();
  Ballot next = known_;
  next.generation = std::max(next.generation, ballot.generation + 1);
  raise(next);
  return ends;
}

void Agreement::lost(int member) {
  if (member == self_ || known_.has(member)) return;
  Ballot more = known_;
  more.add(member);
  raise(more);
}

void Agreement::raise(const Ballot& ballot) {
  Ballot more = known_;
  more.generation = std::max(more.generation, ballot.generation);
  for (size_t i = 0; i < more.dead.size(); ++i) {
    more.dead[i] = static_cast<char>(more.dead[i] | ballot.dead[i]);
  }
  if (more == known_) return;
  known_ = std::move(more);
  std::fill(agrees_.begin(), agrees_.end(), false);
  publish();
}

void Agreement::publish() {
  if (!open_ || overtaken_ || own_ == known_) return;
  own_ = known_;
  news_ = true;
}

bool Agreement::take_news() {
  const bool news = news_ && open_;
  news_ = false;
  return news;
}

bool Agreement::is_decided() const { return open_ && !excluded_ && (overtaken_ || missing().empty()); }

std::vector<int> Agreement::missing() const {
  std::vector<int> members;
  for (const int member : alive()) {
    if (member != self_ && !agrees_[static_cast<size_t>(member)]) members.push_back(member);
  }
  return members;
}

std::vector<int> Agreement::alive() const {
  std::vector<int> members;
  for (int member = 0; member < size(); ++member) {
    if (!own_.has(member)) members.push_back(member);
  }
  return members;
}

}  // namespace nezha::engine
