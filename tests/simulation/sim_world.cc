#include "simulation/sim_world.h"

#include <gtest/gtest.h>

#include <numeric>
#include <utility>

#include "simulation/sim_fabric.h"
#include "simulation/sim_connection_manager.h"

namespace nezha::simulation {

using transport::Connection;

namespace {

constexpr double kNominalBytesPerSecond = 1e8;
// A history that needs more at one instant runs in a circle.
constexpr uint64_t kStepsPerInstantMax = 200'000;

}  // namespace

SimWorld::SimWorld(const WorldOptions& options)
    : options_(options), random_(options.seed * 0x9E3779B97F4A7C15u + 1) {
  const auto ranks = static_cast<size_t>(options_.ranks);
  const bool fabric = options_.fabric_rails > 0;
  while (loops_.size() < (fabric ? ranks : 1)) {
    auto loop = progress::Loop::create(clock_, 0);
    EXPECT_TRUE(loop.is_ok());
    loops_.push_back(std::move(*loop));
    locks_.push_back(std::make_unique<progress::Loop::Lock>(*loops_.back()));
  }
  network_ = std::make_unique<SimNetwork>(clock_, options_.ranks, options_.rails, random_());
  network_->has_path = [this](const PathName& name) {
    return name.rail < std::min(rails_of(name.low), rails_of(name.high));
  };
  network_->own_rail = [this](int rank, int rail) { return own_rail(rank, rail); };
  if (fabric) {
    fabric_ = std::make_unique<SimFabric>(clock_, *network_, options_.rails - options_.fabric_rails,
                                          options_.late_writes,
                                          [this](int rank) -> progress::Loop& { return loop_of(rank); },
                                          random_());
    fabric_->on_news = [this](int rank) { touched_[index(rank)] = true; };
    network_->on_passing = [this](const Passing& at) { fabric_->saw(at); };
  }
  paused_until_.assign(ranks, 0);
  vanished_.assign(ranks, false);
  touched_.assign(ranks, false);
  for (int rank = 0; rank < options_.ranks; ++rank) add_engine(rank);
  if (!options_.on_demand) add_connections();
}

void SimWorld::add_connections() {
  for (const PathName& name : network_->all_paths()) {
    for (int lane = 0; lane < options_.lanes; ++lane) {
      const bool fabric = is_fabric(name.rail);
      auto& low = engine(name.low).connection_events();
      auto& high = engine(name.high).connection_events();
      auto sides = fabric ? fabric_->connect(name, lane, 0, low, high)
                          : network_->connect(name, lane, 0, low, high);
      for (Connection* connection : {sides.low.get(), sides.high.get()}) {
        if (fabric) SimFabric::open(*connection);
      }
      engine(name.low).add_connection(std::move(sides.low));
      engine(name.high).add_connection(std::move(sides.high));
      for (const int side : {0, 1}) {
        if (!fabric) network_->open(sides.link, side);
      }
    }
  }
}

SimWorld::~SimWorld() {
  // Connections that nobody has heard of yet stand on the fabric, too.
  timers_.clear();
  engines_.clear();
  fabric_.reset();
  locks_.clear();
}

void SimWorld::add_engine(int rank) {
  engine::EngineOptions options;
  options.rank = rank;
  options.world_size = options_.ranks;
  options.rails = static_cast<uint32_t>(rails_of(rank));
  options.chunk_bytes = options_.chunk_bytes;
  options.credit_bytes = options_.credit_bytes;
  options.inline_bytes = options_.inline_bytes;
  options.ack_bytes = options_.ack_bytes;
  options.peer_deadline = options_.peer_deadline;
  options.outage = options_.outage;
  options.streams_per_rail = options_.lanes;
  options.on_demand = options_.on_demand;
  options.nominal_bytes_per_s.assign(static_cast<size_t>(options_.rails),
                                     kNominalBytesPerSecond * options_.lanes);
  engines_.push_back(std::make_unique<testing::OpenEngine>(loop_of(rank), options));
  if (options_.fabric_rails > 0) loop_of(rank).set_client(engines_.back().get());
  const engine::GateOptions messages{rank, options_.ranks, options.rails, options_.seed};
  auto gate = engine::make_message_gate(options_.message_policy, messages, engines_.back()->peers());
  EXPECT_TRUE(gate.is_ok()) << gate.status().to_string();
  engines_.back()->set_message_gate(std::move(*gate));
  auto manager =
      std::make_unique<SimConnectionManager>(*this, rank, engines_.back()->join_events(), random_());
  managers_.push_back(manager.get());
  engines_.back()->set_connection_manager(std::move(manager));
  engine::GroupRequest request;
  request.comm = options_.comm;
  request.members.resize(index(options_.ranks));
  std::iota(request.members.begin(), request.members.end(), 0);
  auto policy = rails::make_policy(options_.policy, {.weights = options_.weights});
  EXPECT_TRUE(policy.is_ok()) << policy.status().to_string();
  request.policy = std::move(*policy);
  request.costs.rails = static_cast<uint32_t>(options_.rails);
  auto group = engines_.back()->create_group(std::move(request));
  EXPECT_TRUE(group.is_ok());
  groups_.push_back(*group);
}

// ------------------------------------------------------------------------------------ time

void SimWorld::at_rank(Nanoseconds time, int rank, std::function<void()> what) {
  timers_.emplace(std::max(time, now()), Timer{rank, std::move(what)});
}

Nanoseconds SimWorld::next_time() {
  Nanoseconds next = network_->next_due([this](int rank) { return is_awake(rank); });
  if (!timers_.empty()) next = std::min(next, timers_.begin()->first);
  if (fabric_ != nullptr) next = std::min(next, fabric_->next_due());
  for (int rank = 0; rank < options_.ranks; ++rank) {
    if (!is_awake(rank)) continue;
    next = std::min(next, engine(rank).next_wakeup());
    if (fabric_ != nullptr && fabric_->has_news(rank)) next = now();
  }
  return next;
}

bool SimWorld::run_timer() {
  if (timers_.empty() || timers_.begin()->first > now()) return false;
  Timer timer = std::move(timers_.begin()->second);
  timers_.erase(timers_.begin());
  if (timer.rank >= 0) {
    if (!is_alive(timer.rank)) return true;
    if (!is_awake(timer.rank)) {
      at_rank(paused_until_[index(timer.rank)], timer.rank, std::move(timer.what));
      return true;
    }
    touched_[index(timer.rank)] = true;
  }
  timer.what();
  run_urgent();
  return true;
}

// All that is due, in any order, as one look at the sockets finds it.
bool SimWorld::deliver_all() {
  bool any = false;
  for (;;) {
    const auto awake = [this](int rank) { return is_awake(rank); };
    const std::array<int, 2> ranks = network_->deliver_one(awake);
    if (ranks[0] < 0) break;
    any = true;
    run_urgent();
    fingerprint_.add(static_cast<uint64_t>(now()) * 64 + static_cast<uint64_t>(ranks[0]) * 8 +
                     static_cast<uint64_t>(ranks[1]));
    touched_[index(ranks[0])] = true;
    if (is_awake(ranks[1])) touched_[index(ranks[1])] = true;
  }
  while (fabric_ != nullptr && fabric_->deliver_one()) {
    any = true;
    fingerprint_.add(static_cast<uint64_t>(now()));
  }
  return any;
}

bool SimWorld::step() {
  const Nanoseconds next = next_time();
  if (next == kNever) return false;
  ++steps_;
  clock_.move_to(next);
  if (!run_timer()) deliver_all();
  for (int rank = 0; rank < options_.ranks; ++rank) {
    if (!is_awake(rank)) continue;
    const bool news = fabric_ != nullptr && fabric_->has_news(rank);
    if (touched_[index(rank)] || news || engine(rank).next_wakeup() <= now()) run_engine(rank);
  }
  return true;
}

void SimWorld::run_engine(int rank) {
  touched_[index(rank)] = false;
  if (fabric_ == nullptr) {
    engine(rank).run(now());
  } else {
    locks_[index(rank)]->drive_once();  // asks the ports, too
  }
  run_urgent();
  if (watch) watch(rank);
  if (on_ran && is_alive(rank)) on_ran(rank);
  run_urgent();
}

void SimWorld::run_urgent() {
  while (!urgent_.empty()) {
    const std::vector<std::function<void()>> now_due = std::exchange(urgent_, {});
    for (const auto& what : now_due) what();
  }
}

bool SimWorld::run_until(const std::function<bool()>& done, Nanoseconds until) {
  Nanoseconds instant = now();
  uint64_t begin = steps_;
  while (!done()) {
    if (next_time() > until) {
      clock_.move_to(until);
      return done();
    }
    step();
    if (now() != instant) instant = now(), begin = steps_;
    if (steps_ - begin > kStepsPerInstantMax) return false;
  }
  return true;
}

// ---------------------------------------------------------------------------------- faults

std::vector<Connection*> SimWorld::connections(const PathName& name, int rank) {
  std::vector<Connection*> found;
  if (!is_fabric(name.rail)) {
    for (Connection* each : network_->connections(name, rank)) found.push_back(each);
    return found;
  }
  if (!is_alive(rank)) return found;
  const int peer = rank == name.low ? name.high : name.low;
  for (const engine::Link& link : engine(rank).peers()[index(peer)]->links()) {
    if (link.connection->rail == name.rail && link.is_up()) found.push_back(link.connection.get());
  }
  return found;
}

void SimWorld::reset(const PathName& name, Nanoseconds spread) {
  for (const int rank : {name.low, name.high}) {
    const auto after =
        spread == 0 ? 0 : static_cast<Nanoseconds>(random_() % static_cast<uint64_t>(spread));
    // Only what exists now: a connection that is made meanwhile is another one.
    for (Connection* connection : connections(name, rank)) {
      ++network_->counters.resets;
      const uint32_t epoch = connection->epoch;
      const int lane = connection->lane;
      const auto hear = [this, name, rank, epoch, lane] {
        touched_[index(rank)] = true;
        for (Connection* at : connections(name, rank)) {
          if (at->epoch != epoch || at->lane != lane) continue;
          return at->quiesce(error(Code::peer_lost, "the connection on rail %d was reset", name.rail));
        }
      };
      if (spread == 0 && is_awake(rank)) {
        hear();
      } else {
        at_rank(now() + after, rank, hear);
      }
    }
  }
}

void SimWorld::pause(int rank, Nanoseconds duration) {
  Nanoseconds& until = paused_until_[index(rank)];
  until = std::max(until, now() + duration);
  // Something must happen then, if only that the rank looks round.
  at_rank(until, rank, [] {});
}

void SimWorld::kill(int rank) {
  if (!is_alive(rank)) return;
  groups_[index(rank)] = nullptr;
  engines_[index(rank)].reset();
}

void SimWorld::vanish(int rank) {
  vanished_[index(rank)] = true;
  for (const PathName& name : network_->all_paths()) {
    if (name.low != rank && name.high != rank) continue;
    network_->set_hole(name, 0, true);
    network_->set_hole(name, 1, true);
  }
  kill(rank);
}

void SimWorld::join(const PathName& name, int lane, uint32_t epoch, bool low_first,
                    Nanoseconds later) {
  const bool fabric = is_fabric(name.rail);
  auto sides = fabric ? fabric_->connect(name, lane, epoch, engine(name.low).connection_events(),
                                              engine(name.high).connection_events())
                      : network_->connect(name, lane, epoch, engine(name.low).connection_events(),
                                              engine(name.high).connection_events());
  ++network_->counters.joined;
  const int link = sides.link;
  for (const int side : {0, 1}) {
    const int rank = side == 0 ? name.low : name.high;
    auto end = std::make_shared<std::unique_ptr<transport::Connection>>(
        std::move(side == 0 ? sides.low : sides.high));
    const bool first = (side == 0) == low_first;
    at_rank(now() + (first ? 0 : later), rank, [this, name, lane, rank, side, link, fabric, end] {
      transport::JoinEvents* const events = manager(rank).events();
      if (events == nullptr) return;
      const Path& on = network_->path(name);
      if (!on.hole[0] && !on.hole[1] && (*end)->is_up()) {
        if (fabric) {
          SimFabric::open(**end);
        } else {
          network_->open(link, side);
        }
        return events->on_joined(std::move(*end));
      }
      // The last word of the handshake is lost: one side may believe in the connection for a while.
      end->reset();
      if (side == 0) {
        events->on_dial_failed({name.high, name.rail, name.rail, lane},
                               transport::DialOutcome::failed, "it broke when it was made");
      }
    });
  }
}

}  // namespace nezha::simulation
