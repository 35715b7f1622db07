#include "transport/connect/meetings.h"

#include <algorithm>

#include "base/log.h"

namespace nezha::transport {

Result<std::unique_ptr<Meetings>> Meetings::create(const MeshRequest& request, RailOpener& opener,
                                                   progress::Loop& loop, const Home& home,
                                                   RejoinEvents& events,
                                                   std::vector<RailListener> listeners) {
  std::unique_ptr<Meetings> made(new Meetings(opener, loop.clock(), events));
  Meetings& self = *made;
  auto connector = Connector::create(request, opener, loop, home, self, std::move(listeners), &self);
  if (!connector) return connector.status();
  made->connector_ = std::move(*connector);
  return made;
}

void Meetings::meet(int peer, const std::vector<RailPair>& in_use) {
  const auto [at, is_new] = meetings_.try_emplace(peer);
  due_ = true;
  if (!is_new) return;
  at->second.dials = request().rank < peer;
  at->second.in_use = in_use;
}

void Meetings::stop() {
  meetings_.clear();
  connector_->stop();
}

void Meetings::begin_no_more() {
  std::erase_if(meetings_, [](const auto& each) {
    return each.second.dials && each.second.phase == Meeting::Phase::waiting;
  });
}

void Meetings::give_up() {
  const std::map<int, Meeting> open = std::move(meetings_);
  meetings_.clear();
  for (const auto& [peer, meeting] : open) events_.on_met(outcome_of(peer, meeting));
}

// ------------------------------------------------------------------------------------ events

void Meetings::run(Nanoseconds now) {
  connector_->run(now);
  due_ = false;
  std::vector<Ended> ended;
  size_t dialling = under_way();
  for (auto it = meetings_.begin(); it != meetings_.end();) {
    auto& [peer, meeting] = *it;
    const bool begins = meeting.phase == Meeting::Phase::waiting &&
                        (!meeting.dials || dialling < kMeetingsAtOnce);
    if (begins) begin(peer, meeting, now);
    if (begins && meeting.dials) ++dialling;
    const bool began = meeting.phase != Meeting::Phase::waiting;
    if (began) meeting.dials ? advance(peer, meeting, now) : advance_call(peer, meeting);
    if (!began || !(meeting.is_over() || is_late(meeting, now))) {
      ++it;
      continue;
    }
    due_ |= meeting.dials;  // it makes room for another
    ended.emplace_back(peer, std::move(meeting));
    it = meetings_.erase(it);
  }
  for (const auto& [peer, meeting] : ended) events_.on_met(outcome_of(peer, meeting));
}

Nanoseconds Meetings::next_wakeup() const {
  if (due_) return 0;
  Nanoseconds soonest = connector_->next_wakeup();
  for (const auto& [peer, meeting] : meetings_) soonest = std::min(soonest, deadline_of(meeting));
  return soonest;
}

// What is tried has deadlines of its own; the other rank's doing has not.
Nanoseconds Meetings::deadline_of(const Meeting& meeting) const {
  const bool waits = meeting.phase == Meeting::Phase::deciding ||
                     meeting.phase == Meeting::Phase::expecting;
  if (!waits) return kNever;
  // Two rounds of trials and one of further lanes, each bounded by the probe timeout.
  Nanoseconds patience = 2 * request().probe_timeout + 2 * kSecond;
  if (request().streams_per_rail > 1) patience += request().probe_timeout;
  return std::max(meeting.since, moved_at_) + patience;
}

Meetings::Meeting* Meetings::find(int peer) {
  const auto found = meetings_.find(peer);
  return found == meetings_.end() ? nullptr : &found->second;
}

Meetings::Meeting* Meetings::take_tried(const Path& path) {
  Meeting* const meeting = find(path.peer);
  if (meeting == nullptr || std::erase(meeting->tried, path) == 0) return nullptr;
  due_ = true;
  return meeting;
}

void Meetings::on_joined(std::unique_ptr<Connection> connection) {
  Meeting* const meeting = connection->epoch == 0 ? find(connection->peer) : nullptr;
  if (meeting != nullptr) {
    ++meeting->kept;
    due_ = true;
    moved_at_ = clock_.now();
  }
  events_.on_joined(std::move(connection));
}

void Meetings::on_dial_failed(const Path& path, DialOutcome outcome, const std::string& reason) {
  Meeting* const meeting = take_tried(path);
  if (meeting == nullptr) return events_.on_dial_failed(path, outcome, reason);
  meeting->starved |= outcome == DialOutcome::starved;
  meeting->answered |= outcome == DialOutcome::failed;
  // It was to be used, and broke at the last moment.
  if (meeting->phase == Meeting::Phase::deciding) --meeting->expected;
  meeting->failures.push_back(request().rail_of(request().rank, path.rail).name + " to " +
                              request().rail_of(path.peer, path.peer_rail).address + ": " + reason);
}

void Meetings::on_tested(const Path& path) {
  Meeting* const meeting = take_tried(path);
  if (meeting == nullptr) return;  // given up, and with it this rank's start
  meeting->working.push_back(path);
  meeting->answered = true;
  moved_at_ = clock_.now();
}

void Meetings::on_chosen(int peer, int total) {
  if (Meeting* const meeting = find(peer); meeting != nullptr && !meeting->dials) {
    meeting->expected = total;
  }
}

void Meetings::on_unusable(const Path& path, const Status& why) {
  Meeting* const meeting = find(path.peer);
  if (meeting == nullptr) return;
  meeting->unusable = why;
  if (meeting->expected > 0) --meeting->expected;
  due_ = true;
}

void Meetings::on_called(int peer) {
  if (request().rank < peer && find(peer) == nullptr) events_.on_called(peer);
}

void Meetings::on_heard(const Path& path) {
  Meeting* const meeting = take_tried(path);
  if (meeting == nullptr) return;
  meeting->answered = true;
  meeting->phase = Meeting::Phase::expecting;
  meeting->since = clock_.now();
}

// ----------------------------------------------------------------------------------- meeting

size_t Meetings::under_way() const {
  return static_cast<size_t>(std::count_if(meetings_.begin(), meetings_.end(), [](const auto& each) {
    return each.second.dials && each.second.phase != Meeting::Phase::waiting;
  }));
}

void Meetings::begin(int peer, Meeting& meeting, Nanoseconds now) {
  meeting.since = now;
  const bool waits = !meeting.dials && !request().on_demand;
  meeting.phase = waits ? Meeting::Phase::expecting : Meeting::Phase::trying;
  if (!waits) try_candidates(peer, meeting);
}

void Meetings::try_candidates(int peer, Meeting& meeting) {
  const auto is_free = [&](const RailPair& rails) {
    const auto shares = [&](const RailPair& other) {
      return other.mine == rails.mine || other.theirs == rails.theirs;
    };
    return std::none_of(meeting.in_use.begin(), meeting.in_use.end(), shares) &&
           std::none_of(meeting.chosen.begin(), meeting.chosen.end(), shares);
  };
  for (const RailPair& rails : opener_.candidates(request(), peer, meeting.round)) {
    if (is_free(rails)) try_path({peer, rails.mine, rails.theirs, 0}, meeting);
  }
}

void Meetings::try_path(const Path& path, Meeting& meeting) {
  meeting.tried.push_back(path);
  meeting.dials ? connector_->dial(path, 0, request().probe_timeout)
                : connector_->call(path, request().probe_timeout);
}

void Meetings::choose(int peer, Meeting& meeting) {
  std::vector<RailPair> working;
  for (const Path& path : meeting.working) working.push_back({path.rail, path.peer_rail});
  meeting.chosen = pair_rails(working, static_cast<int>(rails_of(request().rank)),
                              static_cast<int>(rails_of(peer)));
}

void Meetings::advance(int peer, Meeting& meeting, Nanoseconds now) {
  if (!meeting.tried.empty() || meeting.phase == Meeting::Phase::deciding) return;
  if (meeting.phase == Meeting::Phase::trying) choose(peer, meeting);
  const size_t possible = std::min(rails_of(request().rank), rails_of(peer));
  while (meeting.phase == Meeting::Phase::trying &&
         meeting.in_use.size() + meeting.chosen.size() < possible && ++meeting.round < kRounds) {
    try_candidates(peer, meeting);
    if (!meeting.tried.empty()) return;
  }
  if (meeting.phase == Meeting::Phase::trying) {
    meeting.phase = Meeting::Phase::lanes;
    for (const RailPair& rails : meeting.chosen) {
      for (int lane = 1; lane < request().streams_per_rail; ++lane) {
        try_path({peer, rails.mine, rails.theirs, lane}, meeting);
      }
    }
    if (!meeting.tried.empty()) return;
  }
  meeting.phase = Meeting::Phase::deciding;
  meeting.since = now;
  decide(meeting);
}

// It calls until one call is heard, and then waits to be dialled.
void Meetings::advance_call(int peer, Meeting& meeting) {
  if (meeting.phase != Meeting::Phase::trying) return;
  while (meeting.tried.empty() && ++meeting.round < kRounds) try_candidates(peer, meeting);
  if (!meeting.tried.empty()) return;
  // Who has dialled meanwhile need not be called.
  if (meeting.expected >= 0) meeting.phase = Meeting::Phase::expecting;
  meeting.expected = std::max(meeting.expected, 0);
}

void Meetings::decide(Meeting& meeting) {
  const auto is_chosen = [&](const Path& path) {
    return std::find(meeting.chosen.begin(), meeting.chosen.end(), RailPair{path.rail, path.peer_rail}) !=
           meeting.chosen.end();
  };
  for (const Path& path : meeting.working) {
    if (is_chosen(path)) meeting.tried.push_back(path);
  }
  meeting.expected = static_cast<int>(meeting.tried.size());
  const int total = meeting.expected;
  for (const Path& path : meeting.working) connector_->decide(path, is_chosen(path), total);
}

// ----------------------------------------------------------------------------------- telling

Met Meetings::outcome_of(int peer, const Meeting& meeting) const {
  Met met{peer, Status::ok(), meeting.answered, {}};
  if (meeting.dials) met.left_out = left_out(peer, meeting);
  if (meeting.kept > 0) return met;
  if (!meeting.unusable.is_ok()) {
    met.lost = meeting.unusable;
    return met;
  }
  std::string text = "rank " + std::to_string(peer) + " did not connect to it";
  if (meeting.phase == Meeting::Phase::expecting) {
    // Perhaps it tried.
    const std::string& reason = connector_->last_refusal();
    if (!reason.empty()) text += " (somebody was refused: " + reason + ")";
  } else {
    text = "it reaches rank " + std::to_string(peer) + " on no rail (";
    for (size_t i = 0; i < meeting.failures.size(); ++i) text += (i ? ", " : "") + meeting.failures[i];
    text += meeting.failures.empty() ? "no rail in common)" : ")";
  }
  met.lost = Status(meeting.starved ? Code::exhausted : Code::peer_lost, text);
  return met;
}

std::vector<std::string> Meetings::left_out(int peer, const Meeting& meeting) const {
  std::vector<std::string> sentences;
  if (!meeting.in_use.empty()) return sentences;  // that was told when the others were made
  for (size_t mine = 0; mine < rails_of(request().rank); ++mine) {
    const auto is_mine = [&](RailPair rails) { return rails.mine == static_cast<int>(mine); };
    if (std::any_of(meeting.chosen.begin(), meeting.chosen.end(), is_mine)) continue;
    const std::string& name = request().rail_of(request().rank, static_cast<int>(mine)).name;
    std::string why;
    for (const std::string& failure : meeting.failures) {
      if (failure.rfind(name + " to ", 0) == 0) why += (why.empty() ? "" : ", ") + failure;
    }
    if (why.empty()) why = "no rail of that rank is left for it";
    sentences.push_back("rail " + name + " of rank " + std::to_string(request().rank) +
                        " is not used towards rank " + std::to_string(peer) + ": " + why);
    NEZHA_LOG(warn, "rails", "%s", sentences.back().c_str());
  }
  return sentences;
}

}  // namespace nezha::transport
