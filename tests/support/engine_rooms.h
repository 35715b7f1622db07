// The lower rooms of the engine of one rank, for tests of a room without an Engine and what is above it:
// GroupRooms has `common`, `endpoint` and `group`, FlowRooms has `flow`, too.
//
// Contract: one thread, on the test's clock. Nothing moves unless the test calls for it; `deliver_all`
// moves everything between some ranks.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/common/flight_log.h"
#include "engine/endpoint/peer_table.h"
#include "engine/flow/credit_accounts.h"
#include "engine/flow/early_frames.h"
#include "engine/flow/transfers.h"
#include "engine/group/agenda.h"
#include "engine/group/failures.h"
#include "engine/group/group_table.h"
#include "engine/group/parked_budget.h"
#include "engine/group/progress_table.h"
#include "support/fake_wire.h"
#include "support/hand_clock.h"

namespace nezha::testing {

inline constexpr uint64_t kRoomComm = 3;

// Work that is what the test says.
struct GivenWork final : engine::GroupWork {
  std::optional<Status> why_left;
  Nanoseconds deadline = kNever;
  Status failed;
  int failures = 0;

  bool is_idle() const override { return true; }
  void fail(const Status& why) override {
    failed = why;
    ++failures;
  }
  std::optional<Status> left(int) const override { return why_left; }
  std::optional<Status> expired(Nanoseconds now) const override {
    return now < deadline ? std::nullopt : std::optional(error(Code::timed_out, "too late"));
  }
  Nanoseconds next_deadline() const override { return deadline; }
  void mark_awaited(engine::RankSet&) const override {}
};

inline engine::EngineOptions room_options(int rank, int ranks) {
  engine::EngineOptions options;
  options.rank = rank;
  options.world_size = ranks;
  options.rails = 2;
  options.chunk_bytes = 4096;
  options.inline_bytes = 0;
  options.nominal_bytes_per_s = {1e9, 1e9};
  return options;
}

struct GroupRooms {
  GroupRooms(engine::EngineOptions given, const Clock& of_test)
      : options(std::move(given)), clock(of_test) {}
  GroupRooms(const GroupRooms&) = delete;
  GroupRooms& operator=(const GroupRooms&) = delete;
  ~GroupRooms() { peers.clear(); }

  // A group of all ranks, with work that the test gives.
  engine::Group& add_group(uint64_t comm) {
    auto group = std::make_unique<engine::Group>();
    const auto ranks = static_cast<size_t>(options.world_size);
    group->comm = group->lineage = comm;
    group->is_created = true;
    group->credit_bytes = options.credit_bytes;
    group->early_cost.resize(ranks);
    group->rank_of_global.resize(ranks);
    std::iota(group->rank_of_global.begin(), group->rank_of_global.end(), 0);
    group->members.reserve(ranks);
    for (int rank = 0; rank < options.world_size; ++rank) {
      group->members.emplace_back().global_rank = rank;
    }
    group->askers = engine::RankSet(ranks);
    group->rank = options.rank;
    group->collectives = std::make_unique<GivenWork>();
    group->messages = std::make_unique<GivenWork>();
    agenda.make_room(groups.size() + 1);
    return groups.add(std::move(group));
  }
  static GivenWork& collectives(const engine::Group& group) {
    return static_cast<GivenWork&>(*group.collectives);
  }
  // One more connection with the peer.
  void connect(transport::FakeLink& link, int side, int peer, int rail,
               transport::ConnectionEvents& events) {
    auto connection = link.connect(side, events, clock.now());
    connection->peer = peer;
    connection->rail = connection->peer_rail = rail;
    peers.add(peer, std::move(connection), 1e9);
  }

  const engine::EngineOptions options;
  const Clock& clock;
  engine::BufferPool pool;
  engine::Agenda agenda{options.world_size};
  engine::PeerTable peers{options, clock};
  engine::GroupTable groups;
  engine::ParkedBudget parked{options, 1024};
  engine::FlightLog flight{clock};
  engine::ProgressTable progress{options.world_size};
  engine::Failures failures{options, groups, peers, pool, agenda};
};

struct FlowRooms : GroupRooms, transport::ConnectionEvents {
  FlowRooms(engine::EngineOptions given, const Clock& of_test) : GroupRooms(std::move(given), of_test) {}
  ~FlowRooms() override {
    peers.clear();
    transfers.end();
  }

  engine::Transfers transfers{options, clock, peers, pool, agenda};
  engine::CreditAccounts credit{options, clock, groups, peers, transfers, agenda};
  engine::EarlyFrames early{groups, peers, pool, parked, failures};
  // Where a frame of a group goes, what follows when it has landed, and what becomes of frames that are
  // no data and of connections that end; a test gives what it needs.
  std::function<transport::Landing(engine::Group&, transport::Connection&, const wire::FrameHeader&)>
      place = [this](engine::Group& group, transport::Connection& from, const wire::FrameHeader& header) {
        return early.place(group, from.peer, header);
      };
  std::function<void(engine::Group&, engine::EarlyFrame&)> landed_early =
      [](engine::Group& group, engine::EarlyFrame& frame) { group.early.put(frame); };
  std::function<void(engine::Group&)> landed_any = [](engine::Group&) {};
  std::function<void(int, const wire::FrameHeader&)> control = [](int, const wire::FrameHeader&) {};
  std::function<void(transport::Connection&, transport::WorkQueue&)> lost =
      [this](transport::Connection&, transport::WorkQueue& requests) { transfers.drop(requests); };

  // Brings the errors of groups to their work.
  void settle_all() {
    while (engine::Group* const group = agenda.first_to_settle()) {
      (void)agenda.take_settle(*group);
      early.drop_all(*group);
      for (engine::Member& member : group->members) transfers.give_all(member.blocked);
      for (engine::GroupWork* const work : group->works()) work->fail(group->failed);
    }
  }

  // transport::ConnectionEvents
  transport::Landing on_frame(transport::Connection& from, const wire::FrameHeader& header) override {
    engine::Group* const group = groups.find(header.comm);
    if (group == nullptr || !group->failed.is_ok()) return {};
    return place(*group, from, header);
  }
  void on_landed(transport::Connection& from, const wire::FrameHeader& header,
                 const transport::Landing& landing) override {
    engine::Group* const group = groups.find(header.comm);
    credit.landed(from, group, header, landing.early != nullptr);
    if (group == nullptr) return;
    if (engine::EarlyFrame* const frame = engine::EarlyFrame::of(landing)) landed_early(*group, *frame);
    else if (landing.owner != nullptr) landing.owner->landed(header, landing);
    else return;
    landed_any(*group);
  }
  void on_released(transport::Connection&, transport::WorkRequest& request) override {
    transfers.release(request);
  }
  void on_credit(transport::Connection& from, uint64_t comm, uint64_t value) override {
    credit.credited(from.peer, comm, value);
  }
  uint64_t credit_to_tell(transport::Connection& to, uint64_t comm) override {
    return credit.to_tell(to.peer, comm);
  }
  void on_failure(transport::Connection& from, const wire::FrameHeader& header,
                  const std::string& text) override {
    engine::Group* const group = groups.find(header.comm);
    if (group != nullptr) failures.on_failure(*group, from.peer, wire::FailureHeader::from(header), text);
  }
  void on_output(transport::Connection& to) override { agenda.send(to.peer); }
  void on_room(transport::Connection& to) override { transfers.on_room(peers.of(to.peer)); }
  void on_control(transport::Connection& from, const wire::FrameHeader& header,
                  const std::string&) override {
    control(from.peer, header);
  }
  void on_down(transport::Connection& of, transport::WorkQueue& requests, const Status&, bool) override {
    lost(of, requests);
  }
};

// A connection between two ranks, the first of which is the lower one.
inline std::shared_ptr<transport::FakeLink> connect(FlowRooms& low, FlowRooms& high, int rail = 0) {
  auto link = transport::FakeLink::create();
  low.connect(*link, 0, high.options.rank, rail, low);
  high.connect(*link, 1, low.options.rank, rail, high);
  return link;
}

// Until nothing moves: sends what the ranks have, and delivers it.
inline void deliver_all(std::initializer_list<FlowRooms*> ranks,
                        const std::vector<std::shared_ptr<transport::FakeLink>>& links) {
  for (bool moved = true; moved;) {
    moved = false;
    for (FlowRooms* const rank : ranks) {
      while (engine::Group* const group = rank->agenda.take_progress()) rank->landed_any(*group);
      rank->settle_all();
      rank->transfers.run(rank->clock.now());
    }
    for (const auto& link : links) {
      for (const int side : {0, 1}) moved |= link->is_open(side) && link->deliver(side) > 0;
    }
  }
}

}  // namespace nezha::testing
