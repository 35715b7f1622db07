#include "transport/tcp/tcp_mesh.h"

#include <algorithm>
#include <new>

#include "base/log.h"
#include "transport/connect/same_network.h"
#include "transport/tcp/tcp_opener.h"

namespace nezha::transport {

TcpMesh::TcpMesh(const MeshRequest& request) : request_(request) {
  for (const PeerAddress& other : request.ranks) {
    if (other.rank == request.rank) continue;
    Pair pair;
    pair.peer = other.rank;
    pair.dial = request.rank < other.rank;
    pair.same_host = other.host == me().host;
    pairs_.push_back(std::move(pair));
  }
}

Result<Mesh> TcpMesh::run(const Home& home, std::vector<RailListener>& listeners) {
  const Clock& clock = home.loop.clock();
  auto loop = progress::Loop::create(clock, 0);
  if (!loop) return loop.status();
  progress::Loop::Baton baton(**loop);
  auto made = Connector::create(request_, tcp_opener(), **loop, home, *this, std::move(listeners), this);
  if (!made) return made.status();
  // Goes before its loop, whatever is thrown.
  const std::unique_ptr<Connector> connector = std::move(*made);
  connector_ = connector.get();
  clock_ = &clock;
  (*loop)->set_client(this);
  // Two phases of trials and one of further lanes, each bounded by the probe timeout.
  Nanoseconds patience = 2 * request_.probe_timeout + 2 * kSecond;
  if (request_.streams_per_rail > 1) patience += request_.probe_timeout;
  moved_at_ = clock.now();
  run(clock.now());
  while (!is_over() && clock.now() < moved_at_ + patience) {
    baton.drive_to_the_end([&] { return is_over(); }, moved_at_ + patience);
  }
  if (no_memory_) throw std::bad_alloc();
  const Status outcome = !unusable_ ? unusable_ : is_done() ? Status::ok() : undecided_error();
  listeners = connector_->release_listeners();
  if (!outcome) return outcome;
  return std::move(mesh_);
}

// ------------------------------------------------------------------------------------ events

bool TcpMesh::run(Nanoseconds now) {
  connector_->run(now);
  do {
    for (Pair& pair : pairs_) {
      if (pair.dial) advance(pair);
    }
  } while (begin_pairs());
  return false;
}

void TcpMesh::on_joined(std::unique_ptr<Connection> connection) {
  ++pair_of(connection->peer).kept;
  moved_at_ = clock_->now();
  mesh_.connections.push_back(std::move(connection));
}

void TcpMesh::on_dial_failed(const Path& path, DialOutcome outcome, const std::string& reason) {
  Pair& pair = pair_of(path.peer);
  --pair.under_way;
  pair.starved |= outcome == DialOutcome::starved;
  pair.failures.push_back(request_.rail_of(request_.rank, path.rail).name + " to " +
                          request_.rail_of(path.peer, path.peer_rail).address + ": " + reason);
}

void TcpMesh::on_tested(const Path& path) {
  Pair& pair = pair_of(path.peer);
  --pair.under_way;
  pair.working.push_back(path);
  moved_at_ = clock_->now();
}

bool TcpMesh::is_over() const { return no_memory_ || !unusable_ || is_done() || is_hopeless(); }

bool TcpMesh::is_done() const {
  return std::all_of(pairs_.begin(), pairs_.end(),
                     [](const Pair& pair) { return pair.expected > 0 && pair.kept == pair.expected; });
}

// Some peer answered on no rail, and whatever else was begun has been tried.
bool TcpMesh::is_hopeless() const {
  bool lost = false;
  for (const Pair& pair : pairs_) {
    if (!pair.dial || pair.phase == Pair::Phase::waiting) continue;
    if (pair.phase != Pair::Phase::decided) return false;
    lost |= pair.is_lost();
  }
  return lost;
}

Status TcpMesh::undecided_error() const {
  std::string text;
  int first = -1;
  Code code = Code::peer_lost;
  for (const Pair& pair : pairs_) {
    if (pair.expected > 0 && pair.kept == pair.expected) continue;
    if (pair.dial && pair.phase == Pair::Phase::waiting) continue;
    if (pair.starved) code = Code::exhausted;
    if (first < 0) first = pair.peer;
    text += text.empty() ? "" : "; ";
    if (!pair.dial) {
      text += "rank " + std::to_string(pair.peer) + " did not connect to it";
      // Perhaps it tried.
      const std::string& reason = connector_->last_refusal();
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
  for (int mine = 0; mine < static_cast<int>(me().rails.size()); ++mine) {
    for (int theirs = 0; theirs < static_cast<int>(peer(pair.peer).rails.size()); ++theirs) {
      if (is_candidate(pair, {mine, theirs})) dial(pair, {mine, theirs}, 0);
    }
  }
}

void TcpMesh::dial(Pair& pair, RailPair rails, int lane) {
  ++pair.under_way;
  connector_->dial({pair.peer, rails.mine, rails.theirs, lane}, 0, request_.probe_timeout);
}

void TcpMesh::choose(Pair& pair) {
  std::vector<RailPair> working;
  for (const Path& path : pair.working) working.push_back({path.rail, path.peer_rail});
  pair.chosen = pair_rails(working, static_cast<int>(me().rails.size()),
                           static_cast<int>(peer(pair.peer).rails.size()));
}

bool TcpMesh::begin_pairs() {
  bool any = false;
  const auto is_under_way = [](const Pair& pair) {
    return pair.dial && pair.phase != Pair::Phase::waiting && pair.phase != Pair::Phase::decided;
  };
  // The job will fail: what is under way is waited for, so that the error names it.
  const bool is_lost = std::any_of(pairs_.begin(), pairs_.end(),
                                   [](const Pair& pair) { return pair.is_lost(); });
  auto under_way = static_cast<size_t>(std::count_if(pairs_.begin(), pairs_.end(), is_under_way));
  for (Pair& pair : pairs_) {
    if (under_way == kPairsAtOnce || is_lost) break;
    if (!pair.dial || pair.phase != Pair::Phase::waiting) continue;
    pair.phase = Pair::Phase::subnet;
    dial_candidates(pair);
    ++under_way;
    any = true;
  }
  return any;
}

void TcpMesh::advance(Pair& pair) {
  const bool idle = pair.phase == Pair::Phase::waiting || pair.phase == Pair::Phase::decided;
  if (idle || pair.under_way > 0) return;
  if (pair.phase != Pair::Phase::lanes) choose(pair);
  const size_t possible = std::min(me().rails.size(), peer(pair.peer).rails.size());
  if (pair.phase == Pair::Phase::subnet && pair.chosen.size() < possible) {
    pair.phase = Pair::Phase::anything;
    dial_candidates(pair);
    if (pair.under_way > 0) return;
  }
  if (pair.phase != Pair::Phase::lanes && request_.streams_per_rail > 1) {
    pair.phase = Pair::Phase::lanes;
    for (const RailPair& rails : pair.chosen) {
      for (int lane = 1; lane < request_.streams_per_rail; ++lane) dial(pair, rails, lane);
    }
    if (pair.under_way > 0) return;
  }
  decide(pair);
}

void TcpMesh::decide(Pair& pair) {
  pair.phase = Pair::Phase::decided;
  const auto is_chosen = [&](const Path& path) {
    return std::find(pair.chosen.begin(), pair.chosen.end(), RailPair{path.rail, path.peer_rail}) !=
           pair.chosen.end();
  };
  pair.expected = static_cast<int>(std::count_if(pair.working.begin(), pair.working.end(), is_chosen));
  for (const Path& path : pair.working) connector_->decide(path, is_chosen(path), pair.expected);
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
    mesh_.left_out.push_back("rail " + name + " of rank " + std::to_string(request_.rank) +
                        " is not used towards rank " + std::to_string(pair.peer) + ": " + why);
    NEZHA_LOG(warn, "tcp", "%s", mesh_.left_out.back().c_str());
  }
}

}  // namespace nezha::transport
