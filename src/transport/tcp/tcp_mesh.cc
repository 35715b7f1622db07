#include "transport/tcp/tcp_mesh.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include "base/ip_prefix.h"
#include "base/log.h"
#include "transport/connect/strangers.h"
#include "transport/connect/connector.h"
#include "transport/tcp/tcp_opener.h"

namespace nezha::transport {
namespace {

bool same_network(const RailAddress& a, const RailAddress& b) {
  auto first = parse_ip_prefix(a.address);
  auto second = parse_ip_prefix(b.address);
  if (!first || !second) return false;
  first->length = a.prefix_length;
  second->length = b.prefix_length;
  return first->length >= second->length ? first->contains(*second) : second->contains(*first);
}

bool has_outcome(const Trial& trial) {
  return trial.state() == Trial::State::tested || trial.state() == Trial::State::failed;
}

}  // namespace

TcpMesh::TcpMesh(const MeshRequest& request, const std::vector<Descriptor>& device_listeners,
                 const std::vector<Descriptor>& local_listeners, const Clock& clock)
    : request_(request), device_listeners_(device_listeners), local_listeners_(local_listeners),
      clock_(clock), identity_(identity_of(request, tcp_opener())),
      strangers_max_(strangers_max(request)) {
  for (const PeerAddress& other : request.ranks) {
    if (other.rank == request.rank) continue;
    Pair pair;
    pair.peer = other.rank;
    pair.dial = request.rank < other.rank;
    pair.same_host = other.host == me().host;
    pairs_.push_back(std::move(pair));
  }
}

Status TcpMesh::run() {
  // Two phases of trials and one of further lanes, each bounded by the probe timeout.
  deadline_ = clock_.now() + 2 * request_.probe_timeout + 2 * kSecond;
  if (request_.streams_per_rail > 1) deadline_ += request_.probe_timeout;
  for (Pair& pair : pairs_) {
    if (pair.dial) dial_candidates(pair);
  }
  while (true) {
    for (Pair& pair : pairs_) {
      if (pair.dial) advance(pair);
    }
    sort_accepted();
    if (is_done()) return Status::ok();
    if (clock_.now() >= deadline_ || is_hopeless()) return undecided_error();
    poll_once();
  }
}

bool TcpMesh::is_done() const {
  return std::all_of(pairs_.begin(), pairs_.end(), [](const Pair& pair) {
    if (!pair.dial) return pair.kept == pair.expected;
    const bool flushed = std::all_of(pair.trials.begin(), pair.trials.end(),
                                     [](const Trial& trial) { return trial.is_flushed(); });
    return pair.phase == Pair::Phase::decided && !pair.chosen.empty() && flushed;
  });
}

// Everything was tried, and some peer answered on no rail.
bool TcpMesh::is_hopeless() const {
  bool lost = false;
  for (const Pair& pair : pairs_) {
    if (!pair.dial) continue;
    if (pair.phase != Pair::Phase::decided) return false;
    lost |= pair.chosen.empty();
  }
  return lost;
}

Status TcpMesh::undecided_error() const {
  std::string text;
  int first = -1;
  Code code = Code::peer_lost;
  for (const Pair& pair : pairs_) {
    const bool lost = pair.dial ? pair.chosen.empty() : pair.kept != pair.expected;
    if (!lost) continue;
    if (pair.starved) code = Code::exhausted;
    if (first < 0) first = pair.peer;
    text += text.empty() ? "" : "; ";
    if (!pair.dial) {
      text += "rank " + std::to_string(pair.peer) + " did not connect to it";
      // Perhaps it tried.
      const std::string& reason = refusals_.last_reason();
      if (!reason.empty()) text += " (somebody was refused: " + reason + ")";
      continue;
    }
    text += "it reaches rank " + std::to_string(pair.peer) + " on no rail (";
    for (size_t i = 0; i < pair.failures.size(); ++i) text += (i ? ", " : "") + pair.failures[i];
    text += pair.failures.empty() ? "no rail in common)" : ")";
  }
  return error(code, "rank %d: %s; check cables, addresses and firewalls, or choose rails "
               "with NEZHA_RAILS", request_.rank, text.c_str()).with_peer(first);
}

// ---------------------------------------------------------------------------------- polling

void TcpMesh::poll_once() {
  std::vector<pollfd> watched;
  std::vector<Trial*> trials;
  Nanoseconds soonest = deadline_;
  auto watch = [&](Trial& trial) {
    if (trial.state() == Trial::State::failed) return;
    watched.push_back({trial.fd(), trial.poll_events(), 0});
    trials.push_back(&trial);
    soonest = std::min(soonest, trial.deadline());
  };
  for (Pair& pair : pairs_) {
    for (Trial& trial : pair.trials) watch(trial);
    for (const Redial& redial : pair.redials) soonest = std::min(soonest, redial.at);
  }
  for (Trial& trial : accepted_) watch(trial);
  const size_t trial_count = watched.size();
  const Nanoseconds room_from = room_at();
  const bool has_room = room_from <= clock_.now();
  if (!has_room) soonest = std::min(soonest, room_from);
  for (size_t i = 0; has_room && i < device_listeners_.size(); ++i) {
    watched.push_back({device_listeners_[i].get(), POLLIN, 0});
    watched.push_back({local_listeners_[i].get(), POLLIN, 0});
  }
  const Nanoseconds left = std::max<Nanoseconds>(soonest - clock_.now(), 0);
  poll(watched.data(), watched.size(), static_cast<int>(left / kMillisecond) + 1);
  const Nanoseconds now = clock_.now();
  for (size_t i = 0; i < trial_count; ++i) {
    if (watched[i].revents != 0) trials[i]->on_poll(watched[i].revents, now);
    trials[i]->on_time(now);
    if (trials[i]->state() == Trial::State::failed) {
      refusals_.note(*trials[i], now);
      trials[i]->close();
    }
  }
  for (size_t i = trial_count; i < watched.size(); ++i) {
    if (watched[i].revents != 0) accept_from(watched[i].fd, static_cast<int>(i - trial_count) / 2);
  }
}

void TcpMesh::accept_from(int listener, int rail) {
  const Nanoseconds now = clock_.now();
  if (room_at() > now) return;
  const int fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) return;  // it went away, or descriptors are short: the next poll tries again
  if (const auto oldest = in_the_way(); oldest != accepted_.end()) {
    refusals_.note(*oldest, kCrowdedOut, now);
    accepted_.erase(oldest);
  }
  accepted_.emplace_back(identity_, Descriptor(fd), rail, now);
}

std::list<Trial>::iterator TcpMesh::in_the_way() {
  return oldest_in_the_way(accepted_, strangers_max_, [](const Trial& trial) {
    return !trial.is_authenticated() && trial.state() != Trial::State::failed;
  });
}

Nanoseconds TcpMesh::room_at() {
  const auto oldest = in_the_way();
  return oldest == accepted_.end() ? 0 : oldest->since() + kStrangersStay;
}

void TcpMesh::sort_accepted() {
  for (auto it = accepted_.begin(); it != accepted_.end();) {
    const auto here = it++;
    switch (here->state()) {
      case Trial::State::used:
        for (Pair& pair : pairs_) {
          if (pair.peer != here->peer()) continue;
          pair.expected = here->total();
          ++pair.kept;
        }
        used_.splice(used_.end(), accepted_, here);
        break;
      case Trial::State::unused:
      case Trial::State::failed:
        accepted_.erase(here);
        break;
      default:
        break;
    }
  }
}

// ---------------------------------------------------------------------------------- dialling

bool TcpMesh::is_candidate(const Pair& pair, RailPair rails) const {
  const RailAddress& mine = me().rails[static_cast<size_t>(rails.mine)];
  const RailAddress& theirs = peer(pair.peer).rails[static_cast<size_t>(rails.theirs)];
  if (pair.phase == Pair::Phase::subnet) {
    return pair.same_host ? mine.name == theirs.name && same_network(mine, theirs)
                          : same_network(mine, theirs);
  }
  auto uses = [&](RailPair chosen) {
    return chosen.mine == rails.mine || chosen.theirs == rails.theirs;
  };
  return !same_network(mine, theirs) &&
         std::none_of(pair.chosen.begin(), pair.chosen.end(), uses);
}

void TcpMesh::dial_candidates(Pair& pair) {
  const Nanoseconds deadline = clock_.now() + request_.probe_timeout;
  for (int mine = 0; mine < static_cast<int>(me().rails.size()); ++mine) {
    for (int theirs = 0; theirs < static_cast<int>(peer(pair.peer).rails.size()); ++theirs) {
      if (is_candidate(pair, {mine, theirs})) start_dial(pair, {mine, theirs}, 0, deadline);
    }
  }
}

void TcpMesh::start_dial(Pair& pair, RailPair rails, int lane, Nanoseconds deadline) {
  const RailAddress& mine = me().rails[static_cast<size_t>(rails.mine)];
  const RailAddress& theirs = peer(pair.peer).rails[static_cast<size_t>(rails.theirs)];
  auto fd = tcp_opener().dial(request_, {pair.peer, rails.mine, rails.theirs, lane});
  if (!fd) {
    pair.failures.push_back(mine.name + " to " + theirs.address + ": " + fd.status().message());
    pair.starved |= fd.status().code() == Code::exhausted;
    return;
  }
  pair.trials.emplace_back(identity_, std::move(*fd), pair.peer, rails.mine, rails.theirs, lane,
                           0, clock_.now(), deadline);
}

void TcpMesh::dial_again(Pair& pair) {
  const Nanoseconds now = clock_.now();
  for (auto it = pair.trials.begin(); it != pair.trials.end();) {
    const auto here = it++;
    const Nanoseconds at = now + kRedialPause;
    if (!here->was_turned_away() || at >= here->deadline()) continue;
    pair.redials.push_back({{here->rail(), here->peer_rail()}, here->lane(), at, here->deadline()});
    pair.trials.erase(here);
  }
  for (auto it = pair.redials.begin(); it != pair.redials.end();) {
    const auto here = it++;
    if (here->at > now) continue;
    start_dial(pair, here->rails, here->lane, here->deadline);
    pair.redials.erase(here);
  }
}

std::vector<RailPair> TcpMesh::working(const Pair& pair) const {
  std::vector<RailPair> pairs;
  for (const Trial& trial : pair.trials) {
    if (trial.state() == Trial::State::tested) pairs.push_back({trial.rail(), trial.peer_rail()});
  }
  return pairs;
}

void TcpMesh::choose(Pair& pair) {
  pair.chosen = pair_rails(working(pair), static_cast<int>(me().rails.size()),
                           static_cast<int>(peer(pair.peer).rails.size()));
}

void TcpMesh::advance(Pair& pair) {
  if (pair.phase == Pair::Phase::decided) return;
  dial_again(pair);
  if (!pair.redials.empty()) return;
  if (!std::all_of(pair.trials.begin(), pair.trials.end(), has_outcome)) return;
  for (const Trial& trial : pair.trials) {
    if (trial.state() != Trial::State::failed) continue;
    const RailAddress& mine = me().rails[static_cast<size_t>(trial.rail())];
    const RailAddress& theirs = peer(pair.peer).rails[static_cast<size_t>(trial.peer_rail())];
    pair.failures.push_back(mine.name + " to " + theirs.address + ": " + trial.reason());
  }
  std::erase_if(pair.trials,
                [](const Trial& trial) { return trial.state() == Trial::State::failed; });
  if (pair.phase != Pair::Phase::lanes) choose(pair);
  const size_t possible = std::min(me().rails.size(), peer(pair.peer).rails.size());
  if (pair.phase == Pair::Phase::subnet && pair.chosen.size() < possible) {
    pair.phase = Pair::Phase::anything;
    const size_t before = pair.trials.size();
    dial_candidates(pair);
    if (pair.trials.size() > before) return;
  }
  if (pair.phase != Pair::Phase::lanes && request_.streams_per_rail > 1) {
    pair.phase = Pair::Phase::lanes;
    const Nanoseconds deadline = clock_.now() + request_.probe_timeout;
    for (const RailPair& rails : pair.chosen) {
      for (int lane = 1; lane < request_.streams_per_rail; ++lane) {
        start_dial(pair, rails, lane, deadline);
      }
    }
    return;
  }
  decide(pair);
}

void TcpMesh::decide(Pair& pair) {
  pair.phase = Pair::Phase::decided;
  auto is_chosen = [&](const Trial& trial) {
    return std::find(pair.chosen.begin(), pair.chosen.end(),
                     RailPair{trial.rail(), trial.peer_rail()}) != pair.chosen.end();
  };
  const auto total = static_cast<int>(
      std::count_if(pair.trials.begin(), pair.trials.end(), is_chosen));
  for (auto it = pair.trials.begin(); it != pair.trials.end();) {
    const auto here = it++;
    const bool use = is_chosen(*here);
    here->decide(use, total);
    if (use) used_.splice(used_.end(), pair.trials, here);
  }
  explain_left_out(pair);
}

void TcpMesh::explain_left_out(const Pair& pair) {
  for (int mine = 0; mine < static_cast<int>(me().rails.size()); ++mine) {
    const auto is_mine = [&](RailPair rails) { return rails.mine == mine; };
    if (std::any_of(pair.chosen.begin(), pair.chosen.end(), is_mine)) continue;
    const std::string& name = me().rails[static_cast<size_t>(mine)].name;
    std::string why;
    for (const std::string& failure : pair.failures) {
      if (failure.rfind(name + " to ", 0) == 0) why += (why.empty() ? "" : ", ") + failure;
    }
    if (why.empty()) why = "no rail of that rank is left for it";
    left_out_.push_back("rail " + name + " of rank " + std::to_string(request_.rank) +
                        " is not used towards rank " + std::to_string(pair.peer) + ": " + why);
    NEZHA_LOG(warn, "tcp", "%s", left_out_.back().c_str());
  }
}

}  // namespace nezha::transport
