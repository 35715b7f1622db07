// Agenda: what a part of the engine has found and another one acts on in the engine's next turn. Parts
// put it here instead of calling each other, because they find it deep inside of something else.
//
// Contract: owned by the engine, progress lock held. What is put here twice is there once; to put it
// needs no memory. Engine::run works it off in the order of this table, again until only output that
// waits is left:
//
//   item         of      put here when                              worked off by
//   progress     group   what a collective waited for has come      Operations::progress
//   agree        -       an agreement has learned something         Shrinker::run
//   settle       group   it has failed                              Engine::settle
//   connect      peer    a connection is needed, and there is none  MissingConnections::need
//   send         peer    something is to leave, or a rail drains    Transfers::run
//
// Acknowledgements are worked off before `connect`, when they are due (CreditAccounts::acknowledge_all).
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/common/rank_set.h"
#include "engine/group/group.h"

namespace nezha::engine {

class Agenda {
 public:
  explicit Agenda(int ranks)
      : connect_(static_cast<size_t>(ranks)), send_(connect_), drain_(connect_) {}

  // So many groups may be put here.
  void make_room(size_t groups) {
    progress_.reserve(groups);
    settle_.reserve(groups);
  }
  // The group ends.
  void forget(const Group& group) noexcept {
    std::erase(progress_, &group);
    std::erase(settle_, &group);
  }

  void progress(Group& group) {
    if (!std::exchange(group.due, true)) progress_.push_back(&group);
  }
  void settle(Group& group) {
    if (std::exchange(group.settled, false)) settle_.push_back(&group);
  }
  void agree() { agree_ = true; }
  void connect(int peer) { connect_.add(peer); }
  void send(int peer) { send_.add(peer); }
  // Nothing is to be sent to the peer, but its rails drain and are looked at now and then
  // (PeerLinks::is_draining).
  void drain(int peer) { drain_.add(peer); }

  // Takes the first group away; null: there is none.
  Group* take_progress() {
    if (progress_.empty()) return nullptr;
    Group* const first = progress_.front();
    progress_.erase(progress_.begin());
    first->due = false;
    return first;
  }
  Group* first_to_settle() const { return settle_.empty() ? nullptr : settle_.front(); }
  // Takes the group away. False: it was not here.
  bool take_settle(Group& group) noexcept {
    if (std::exchange(group.settled, true)) return false;
    std::erase(settle_, &group);
    return true;
  }
  bool take_agree() { return std::exchange(agree_, false); }
  template <class Visit>
  void take_connect(Visit visit) {
    connect_.take_all(visit);
  }
  // `visit(peer)` says whether something still waits to leave.
  template <class Visit>
  void visit_send(Visit visit) {
    send_.visit(visit);
  }
  template <class Test>
  bool any_send(Test test) const {
    return send_.any(test);
  }
  void send_to_draining() {
    drain_.take_all([this](int peer) { send_.add(peer); });
  }

  // Something other than output is left.
  bool has_more() const {
    return agree_ || !progress_.empty() || !settle_.empty() || !connect_.empty();
  }

 private:
  std::vector<Group*> progress_;
  std::vector<Group*> settle_;
  bool agree_ = false;
  RankSet connect_;
  RankSet send_;
  RankSet drain_;
};

}  // namespace nezha::engine
