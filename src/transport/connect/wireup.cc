#include "transport/connect/wireup.h"

#include <algorithm>

#include "base/log.h"

namespace nezha::transport {

Result<std::unique_ptr<Wireup>> Wireup::create(const MeshRequest& request, RailOpener& opener,
                                                   progress::Loop& loop, const Home& home,
                                                   JoinEvents& events,
                                                   std::vector<RailListener> listeners) {
  std::unique_ptr<Wireup> made(new Wireup(opener, loop.clock(), events));
  Wireup& self = *made;
  auto connector = Connector::create(request, opener, loop, home, self, std::move(listeners), &self);
  if (!connector) return connector.status();
  made->connector_ = std::move(*connector);
  return made;
}

void Wireup::connect(int peer, const std::vector<RailPair>& in_use) {
  const auto [at, is_new] = attempts_.try_emplace(peer);
  due_ = true;
  if (!is_new) return;
  at->second.dials = request().rank < peer;
  at->second.in_use = in_use;
}

void Wireup::stop() {
  attempts_.clear();
  connector_->stop();
}

void Wireup::begin_no_more() {
  std::erase_if(attempts_, [](const auto& each) {
    return each.second.dials && each.second.phase == Attempt::Phase::waiting;
  });
}

void Wireup::give_up() {
  const std::map<int, Attempt> open = std::move(attempts_);
  attempts_.clear();
  for (const auto& [peer, attempt] : open) events_.on_connect_done(outcome_of(peer, attempt));
}

// ------------------------------------------------------------------------------------ events

void Wireup::run(Nanoseconds now) {
  connector_->run(now);
  due_ = false;
  std::vector<Ended> ended;
  size_t dialling = under_way();
  for (auto it = attempts_.begin(); it != attempts_.end();) {
    auto& [peer, attempt] = *it;
    const bool begins = attempt.phase == Attempt::Phase::waiting &&
                        (!attempt.dials || dialling < kAttemptsAtOnce);
    if (begins) begin(peer, attempt, now);
    if (begins && attempt.dials) ++dialling;
    const bool began = attempt.phase != Attempt::Phase::waiting;
    if (began) attempt.dials ? advance(peer, attempt, now) : advance_request(peer, attempt);
    if (!began || !(attempt.is_over() || is_late(attempt, now))) {
      ++it;
      continue;
    }
    due_ |= attempt.dials;  // its end makes room for another attempt
    ended.emplace_back(peer, std::move(attempt));
    it = attempts_.erase(it);
  }
  for (const auto& [peer, attempt] : ended) events_.on_connect_done(outcome_of(peer, attempt));
}

Nanoseconds Wireup::next_wakeup() const {
  if (due_) return 0;
  Nanoseconds soonest = connector_->next_wakeup();
  for (const auto& [peer, attempt] : attempts_) soonest = std::min(soonest, deadline_of(attempt));
  return soonest;
}

// Paths that are tried have deadlines of their own. An attempt that waits for the other rank has
// none, so it gets one here.
Nanoseconds Wireup::deadline_of(const Attempt& attempt) const {
  const bool waits = attempt.phase == Attempt::Phase::deciding ||
                     attempt.phase == Attempt::Phase::expecting;
  if (!waits) return kNever;
  // Two rounds of handshakes and one of further lanes, each bounded by the probe timeout.
  Nanoseconds patience = 2 * request().probe_timeout + 2 * kSecond;
  if (request().streams_per_rail > 1) patience += request().probe_timeout;
  return std::max(attempt.since, moved_at_) + patience;
}

Wireup::Attempt* Wireup::find(int peer) {
  const auto found = attempts_.find(peer);
  return found == attempts_.end() ? nullptr : &found->second;
}

Wireup::Attempt* Wireup::take_tried(const Path& path) {
  Attempt* const attempt = find(path.peer);
  if (attempt == nullptr || std::erase(attempt->tried, path) == 0) return nullptr;
  due_ = true;
  return attempt;
}

void Wireup::on_joined(std::unique_ptr<Connection> connection) {
  Attempt* const attempt = connection->epoch == 0 ? find(connection->peer) : nullptr;
  if (attempt != nullptr) {
    ++attempt->kept;
    due_ = true;
    moved_at_ = clock_.now();
  }
  events_.on_joined(std::move(connection));
}

void Wireup::on_dial_failed(const Path& path, DialOutcome outcome, const std::string& reason) {
  Attempt* const attempt = take_tried(path);
  if (attempt == nullptr) return events_.on_dial_failed(path, outcome, reason);
  attempt->starved |= outcome == DialOutcome::starved;
  attempt->answered |= outcome == DialOutcome::failed;
  attempt->silent |= outcome == DialOutcome::unanswered;
  attempt->refused |= outcome == DialOutcome::refused;
  // The connection was to be used, and broke at the last moment.
  if (attempt->phase == Attempt::Phase::deciding) --attempt->expected;
  attempt->failures.push_back(request().rail_of(request().rank, path.rail).name + " to " +
                              request().rail_of(path.peer, path.peer_rail).address + ": " + reason);
}

void Wireup::on_tested(const Path& path) {
  Attempt* const attempt = take_tried(path);
  if (attempt == nullptr) return;  // the attempt was given up, and with it this rank's start
  attempt->working.push_back(path);
  attempt->answered = true;
  moved_at_ = clock_.now();
}

void Wireup::on_chosen(int peer, int total) {
  if (Attempt* const attempt = find(peer); attempt != nullptr && !attempt->dials) {
    attempt->expected = total;
  }
}

void Wireup::on_unusable(const Path& path, const Status& why) {
  Attempt* const attempt = find(path.peer);
  if (attempt == nullptr) return;
  attempt->unusable = why;
  if (attempt->expected > 0) --attempt->expected;
  due_ = true;
}

void Wireup::on_connection_requested(int peer) {
  if (request().rank < peer && find(peer) == nullptr) events_.on_connection_requested(peer);
}

void Wireup::on_request_heard(const Path& path) {
  Attempt* const attempt = take_tried(path);
  if (attempt == nullptr) return;
  attempt->answered = true;
  attempt->phase = Attempt::Phase::expecting;
  attempt->since = clock_.now();
}

// ----------------------------------------------------------------------------------- attempt

size_t Wireup::under_way() const {
  return static_cast<size_t>(std::count_if(attempts_.begin(), attempts_.end(), [](const auto& each) {
    return each.second.dials && each.second.phase != Attempt::Phase::waiting;
  }));
}

void Wireup::begin(int peer, Attempt& attempt, Nanoseconds now) {
  attempt.since = now;
  const bool waits = !attempt.dials && !request().on_demand;
  attempt.phase = waits ? Attempt::Phase::expecting : Attempt::Phase::trying;
  if (!waits) try_candidates(peer, attempt);
}

void Wireup::try_candidates(int peer, Attempt& attempt) {
  const auto is_free = [&](const RailPair& rails) {
    const auto shares = [&](const RailPair& other) {
      return other.mine == rails.mine || other.theirs == rails.theirs;
    };
    return std::none_of(attempt.in_use.begin(), attempt.in_use.end(), shares) &&
           std::none_of(attempt.chosen.begin(), attempt.chosen.end(), shares);
  };
  for (const RailPair& rails : opener_.candidates(request(), peer, attempt.round)) {
    if (is_free(rails)) try_path({peer, rails.mine, rails.theirs, 0}, attempt);
  }
}

void Wireup::try_path(const Path& path, Attempt& attempt) {
  attempt.tried.push_back(path);
  attempt.dials ? connector_->dial(path, 0, request().probe_timeout)
                : connector_->request_connection(path, request().probe_timeout);
}

void Wireup::choose(int peer, Attempt& attempt) {
  std::vector<RailPair> working;
  for (const Path& path : attempt.working) working.push_back({path.rail, path.peer_rail});
  attempt.chosen = pair_rails(working, static_cast<int>(rails_of(request().rank)),
                              static_cast<int>(rails_of(peer)));
}

void Wireup::advance(int peer, Attempt& attempt, Nanoseconds now) {
  if (!attempt.tried.empty() || attempt.phase == Attempt::Phase::deciding) return;
  if (attempt.phase == Attempt::Phase::trying) choose(peer, attempt);
  const size_t possible = std::min(rails_of(request().rank), rails_of(peer));
  while (attempt.phase == Attempt::Phase::trying &&
         attempt.in_use.size() + attempt.chosen.size() < possible && ++attempt.round < kRounds) {
    try_candidates(peer, attempt);
    if (!attempt.tried.empty()) return;
  }
  if (attempt.phase == Attempt::Phase::trying) {
    attempt.phase = Attempt::Phase::lanes;
    for (const RailPair& rails : attempt.chosen) {
      for (int lane = 1; lane < request().streams_per_rail; ++lane) {
        try_path({peer, rails.mine, rails.theirs, lane}, attempt);
      }
    }
    if (!attempt.tried.empty()) return;
  }
  attempt.phase = Attempt::Phase::deciding;
  attempt.since = now;
  decide(attempt);
}

// The attempt asks until one request is heard, and then waits to be dialled.
void Wireup::advance_request(int peer, Attempt& attempt) {
  if (attempt.phase != Attempt::Phase::trying) return;
  while (attempt.tried.empty() && ++attempt.round < kRounds) try_candidates(peer, attempt);
  if (!attempt.tried.empty()) return;
  // A peer that has dialled meanwhile need not be asked.
  if (attempt.expected >= 0) attempt.phase = Attempt::Phase::expecting;
  attempt.expected = std::max(attempt.expected, 0);
}

void Wireup::decide(Attempt& attempt) {
  const auto is_chosen = [&](const Path& path) {
    return std::find(attempt.chosen.begin(), attempt.chosen.end(), RailPair{path.rail, path.peer_rail}) !=
           attempt.chosen.end();
  };
  for (const Path& path : attempt.working) {
    if (is_chosen(path)) attempt.tried.push_back(path);
  }
  attempt.expected = static_cast<int>(attempt.tried.size());
  const int total = attempt.expected;
  for (const Path& path : attempt.working) connector_->decide(path, is_chosen(path), total);
}

// ----------------------------------------------------------------------------------- telling

ConnectResult Wireup::outcome_of(int peer, const Attempt& attempt) const {
  ConnectResult result{peer,           Status::ok(),    attempt.answered, attempt.refused,
                       attempt.silent, attempt.starved, {}};
  if (attempt.dials) result.left_out = left_out(peer, attempt);
  if (attempt.kept > 0) return result;
  if (!attempt.unusable.is_ok()) {
    result.lost = attempt.unusable;
    return result;
  }
  std::string text = "rank " + std::to_string(peer) + " did not connect to it";
  if (attempt.phase == Attempt::Phase::expecting) {
    // The peer may have tried.
    const std::string& reason = connector_->last_refusal();
    if (!reason.empty()) text += " (somebody was refused: " + reason + ")";
  } else {
    text = "it reaches rank " + std::to_string(peer) + " on no rail (";
    for (size_t i = 0; i < attempt.failures.size(); ++i) text += (i ? ", " : "") + attempt.failures[i];
    text += attempt.failures.empty() ? "no rail in common)" : ")";
  }
  result.lost = Status(attempt.starved ? Code::exhausted : Code::peer_lost, text);
  return result;
}

std::vector<std::string> Wireup::left_out(int peer, const Attempt& attempt) const {
  std::vector<std::string> sentences;
  if (!attempt.in_use.empty()) return sentences;  // told when the connections in use were made
  for (size_t mine = 0; mine < rails_of(request().rank); ++mine) {
    const auto is_mine = [&](RailPair rails) { return rails.mine == static_cast<int>(mine); };
    if (std::any_of(attempt.chosen.begin(), attempt.chosen.end(), is_mine)) continue;
    const std::string& name = request().rail_of(request().rank, static_cast<int>(mine)).name;
    std::string why;
    for (const std::string& failure : attempt.failures) {
      if (failure.rfind(name + " to ", 0) == 0) why += (why.empty() ? "" : ", ") + failure;
    }
    const bool is_missing = request().rail_of(request().rank, static_cast<int>(mine)).is_missing();
    if (why.empty()) why = is_missing ? "it has no address yet" : "no rail of that rank is left for it";
    sentences.push_back("rail " + name + " of rank " + std::to_string(request().rank) +
                        " is not used towards rank " + std::to_string(peer) + ": " + why);
    NEZHA_LOG(warn, "rails", "%s", sentences.back().c_str());
  }
  return sentences;
}

}  // namespace nezha::transport
