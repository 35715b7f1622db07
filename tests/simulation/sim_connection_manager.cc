#include "simulation/sim_connection_manager.h"

#include <algorithm>
#include <string>
#include <utility>

#include "simulation/sim_world.h"

namespace nezha::simulation {

using transport::DialOutcome;

namespace {

constexpr Nanoseconds kPatience = 3 * kSecond;

}  // namespace

PathName SimConnectionManager::name_of(const transport::Path& path) const {
  return {std::min(rank_, path.peer), std::max(rank_, path.peer),
          world_.own_rail(rank_, path.rail)};
}

SimConnectionManager::Reach SimConnectionManager::reach(const transport::Path& path) const {
  const Path& on = world_.network().path(name_of(path));
  if (on.hole[0] || on.hole[1] || world_.has_vanished(path.peer)) return Reach::silent;
  const bool listens =
      world_.is_alive(path.peer) && world_.manager(path.peer).events() != nullptr;
  return listens ? Reach::yes : Reach::closed;
}

void SimConnectionManager::connect(int peer, const std::vector<transport::RailPair>& in_use) {
  ++meetings;
  const Path& on = world_.network().path(name_of({peer, 0, 0, 0}));
  const Nanoseconds give_up = world_.now() + kPatience;
  world_.at_rank(world_.now() + 3 * (on.delay + on.extra_delay), rank_, [this, peer, in_use, give_up] {
    // It stood still meanwhile: its time was over before it read what came.
    if (world_.now() > give_up) return end_connecting(peer, 0, {.answered = true});
    finish_connecting(peer, in_use);
  });
}

// The lower rank connects every rail that leads to the other; the higher one calls it on one of them.
void SimConnectionManager::finish_connecting(int peer, const std::vector<transport::RailPair>& in_use) {
  constexpr Nanoseconds kJoined = 5 * kMillisecond;
  if (events() == nullptr) return;
  bool is_silent = false;
  bool answers = false;
  if (is_starved) return end_connecting(peer, kJoined, {.starved = true});
  bool refuses = false;
  for (int rail = 0; rail < world_.rails(); ++rail) {
    const auto is_it = [rail](const transport::RailPair& pair) { return pair.mine == rail; };
    if (std::any_of(in_use.begin(), in_use.end(), is_it)) continue;
    const transport::Path path{peer, rail, rail, 0};
    const Reach reached = reach(path);
    is_silent |= reached == Reach::silent;
    refuses |= reached == Reach::closed;
    if (reached != Reach::yes) continue;
    answers = true;
    if (!world_.is_awake(peer) || rank_ > peer) continue;
    for (int lane = 0; lane < world_.options().lanes; ++lane) {
      const auto later = static_cast<Nanoseconds>(random_() % (2 * kMillisecond));
      world_.join(name_of(path), lane, 0, random_() % 2 == 0, later);
    }
  }
  if (answers && rank_ > peer) {
    // By then this rank may be gone.
    world_.at_rank(world_.now(), peer, [&world = world_, caller = rank_, peer] {
      transport::JoinEvents* const called = world.manager(peer).events();
      if (called != nullptr) called->on_connection_requested(caller);
    });
  }
  const bool waits = is_silent && !answers;
  end_connecting(peer, waits || (answers && !world_.is_awake(peer)) ? kPatience : kJoined,
                 {.answered = answers, .refused = refuses, .silent = is_silent});
}

void SimConnectionManager::end_connecting(int peer, Nanoseconds after, transport::ConnectResult result) {
  // Where connections have joined meanwhile nobody asks why.
  result.peer = peer;
  result.lost = error(Code::peer_lost, "no rail leads to rank %d", peer);
  world_.at_rank(world_.now() + after, rank_,
                 [this, result = std::move(result)] { connected_.push_back(result); });
}

void SimConnectionManager::run(Nanoseconds) {
  for (const transport::ConnectResult& each : std::exchange(connected_, {})) {
    if (events() != nullptr) events()->on_connect_done(each);
  }
}

void SimConnectionManager::dial(const transport::Path& path, uint32_t epoch, Nanoseconds patience) {
  ++dials;
  if (is_starved) {
    world_.at_rank(world_.now(), rank_, [this, path] {
      if (events() != nullptr) events()->on_dial_failed(path, DialOutcome::starved, "no descriptor");
    });
    return;
  }
  const Path& on = world_.network().path(name_of(path));
  const Nanoseconds trip = 3 * (on.delay + on.extra_delay);
  const Nanoseconds give_up = world_.now() + patience;
  world_.at_rank(world_.now() + std::min(trip, patience), rank_,
                 [this, path, epoch, give_up] { finish_dial(path, epoch, give_up); });
}

void SimConnectionManager::finish_dial(const transport::Path& path, uint32_t epoch, Nanoseconds give_up) {
  if (events() == nullptr) return;
  const Reach reached = reach(path);
  // A process that stands still accepts and does not answer.
  if (reached == Reach::silent || (reached == Reach::yes && !world_.is_awake(path.peer))) {
    world_.at_rank(give_up, rank_, [this, path] {
      if (events() == nullptr) return;
      events()->on_dial_failed(path, DialOutcome::unanswered, "silence");
    });
    return;
  }
  if (reached == Reach::closed) {
    return events()->on_dial_failed(path, DialOutcome::refused, "nobody listens");
  }
  if (fail_every > 0 && random_() % fail_every == 0) {
    return events()->on_dial_failed(path, DialOutcome::failed, "the test of the connection failed");
  }
  const auto later = static_cast<Nanoseconds>(random_() % (2 * kMillisecond));
  world_.join(name_of(path), path.lane, epoch, random_() % 2 == 0, later);
}

// Of rails that write the process itself answers.
transport::Probed SimConnectionManager::answer(const transport::Path& path) const {
  if (is_starved) return transport::Probed::untried;
  switch (reach(path)) {
    case Reach::silent: return transport::Probed::nothing;
    case Reach::closed: return transport::Probed::refusal;
    case Reach::yes: break;
  }
  const WorldOptions& options = world_.options();
  const bool writes = path.rail >= options.rails - options.fabric_rails;
  return writes && world_.is_awake(path.peer) ? transport::Probed::process : transport::Probed::host;
}

void SimConnectionManager::probe(const transport::Path& path, Nanoseconds patience) {
  ++probes;
  const Path& on = world_.network().path(name_of(path));
  const bool silent = reach(path) == Reach::silent;
  const Nanoseconds after = silent ? patience : std::min(patience, 2 * (on.delay + on.extra_delay));
  // A lost request is sent again after a second only, which is beyond any patience.
  world_.at_rank(world_.now() + after, rank_, [this, path, silent] {
    if (events() == nullptr) return;
    events()->on_probed(path, silent && !is_starved ? transport::Probed::nothing : answer(path));
  });
}

}  // namespace nezha::simulation
