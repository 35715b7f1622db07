// SimNetwork: the paths between ranks, rail by rail, and the connections on them, on a virtual clock.
//
// Contract
//   Owner    a SimWorld; one thread. Everything random comes from the seed.
//   Order    frames of one connection arrive in order; between connections every order occurs.
//   Faults   the world's or a test's to set: a hole in one direction (what is sent into it arrives
//            after it is closed, or never), a slow or long path. Connections that were made later
//            use the same path.
// The side of a pair's lower rank is 0 everywhere; `to` names the side to which something goes.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "simulation/sim_clock.h"
#include "support/fake_wire.h"

namespace nezha::simulation {

struct PathName {
  int low = 0;
  int high = 1;
  int rail = 0;
  auto operator<=>(const PathName&) const = default;
};

struct Path {
  Nanoseconds delay = 50 * kMicrosecond;
  Nanoseconds jitter = 20 * kMicrosecond;
  double bytes_per_s = 1e8;
  double slowness = 1;               // divides the rate
  Nanoseconds extra_delay = 0;
  std::array<bool, 2> hole{};        // by direction
  Nanoseconds closed_at = 0;         // when there last began to be a hole, and ceased to be one
  Nanoseconds opened_at = 0;
  std::array<Nanoseconds, 2> written_not_before{};  // what a fabric writes arrives from here on

  bool is_open() const { return !hole[0] && !hole[1]; }
};

// A frame that passes some moment of its way, as tests name it.
struct Passing {
  PathName path;
  int lane = 0;
  uint32_t epoch = 0;
  int from = 0;  // ranks
  int to = 0;
  wire::FrameHeader header;
  transport::FakeMoment moment = transport::FakeMoment::sent;
};

struct NetworkCounters {
  uint64_t frames = 0;
  uint64_t held_up = 0;    // frames that a hole swallowed or delayed
  uint64_t resets = 0;     // connections that were reset
  uint64_t joined = 0;     // connections made after the beginning
};

class SimNetwork final : public transport::FakeNetwork {
 public:
  SimNetwork(SimClock& clock, int ranks, int rails, uint64_t seed);

  struct Sides {
    std::unique_ptr<transport::Connection> low;
    std::unique_ptr<transport::Connection> high;
    int link = 0;
  };
  // A new connection. Nothing reaches a side before it is opened.
  Sides connect(const PathName& name, int lane, uint32_t epoch, transport::ConnectionEvents& low,
                transport::ConnectionEvents& high);
  void open(int link, int side);
  // Says of a connection which it is: on that path, to that rank.
  void identify(transport::Connection& connection, const PathName& name, int peer, int lane,
                uint32_t epoch);

  Path& path(const PathName& name) { return paths_[index(name)]; }
  std::vector<PathName> all_paths() const;
  // A rank's own rail: all that it sends there, and all that it receives, passes at this rate; 0: it
  // takes no time.
  double& port_bytes_per_s(int rank, int rail) { return port(rank, rail).bytes_per_s; }
  // What a hole held up arrives after its end, at most as long after it as it lasted, or `at_once`.
  void set_hole(const PathName& name, int to, bool hole, bool at_once = false);
  // The live connections of a rank on a path.
  std::vector<transport::Connection*> connections(const PathName& name, int rank);

  // The next instant at which something arrives at a rank for which `awake(rank)`.
  template <class Awake>
  Nanoseconds next_due(Awake awake) {
    Nanoseconds next = kNever;
    visit([&](NamedLink&, int, int rank, Nanoseconds due) {
      if (due < next && awake(rank)) next = due;
    });
    return next;
  }
  // Delivers one thing that is due, any of them, and returns the ranks it concerns (receiver and
  // sender); {-1, -1} when nothing is due.
  template <class Awake>
  std::array<int, 2> deliver_one(Awake awake) {
    ready_.clear();
    visit([&](NamedLink& named, int to, int rank, Nanoseconds due) {
      if (due <= clock_.now() && awake(rank)) ready_.push_back({&named, to});
    });
    if (ready_.empty()) return {-1, -1};
    return deliver(ready_[random_() % ready_.size()], awake);
  }

  std::function<bool(const PathName&)> has_path;            // set before connections are made
  std::function<int(int rank, int rail)> own_rail;          // what a rank calls a rail
  std::function<void(const Passing&)> on_passing;
  // May change what rank `from` has under way; the last frame is new.
  std::function<void(int from, int to, std::deque<transport::FakeFrame>& under_way)> on_tamper;
  NetworkCounters counters;

  // transport::FakeNetwork
  void admit(const transport::FakeLink& link, int to, transport::FakeFrame& frame) override;
  size_t survivors(const transport::FakeLink& link, int to, size_t under_way) override;
  Nanoseconds end_heard(const transport::FakeLink& link, int to) override;
  Nanoseconds host_heard(const transport::FakeLink& link, int of) override;
  void tamper(const transport::FakeLink& link, int to,
              std::deque<transport::FakeFrame>& under_way) override;
  void saw(const transport::FakeLink& link, int to, const wire::FrameHeader& header,
           transport::FakeMoment moment) override;

 private:
  struct NamedLink {
    std::shared_ptr<transport::FakeLink> link;
    std::array<transport::Connection*, 2> sides{};  // while the link's side is open
    PathName name;
    int lane = 0;
    uint32_t epoch = 0;
    std::array<bool, 2> open{};
    std::array<Nanoseconds, 2> busy_until{};
    std::array<Nanoseconds, 2> last_due{};
    std::array<Nanoseconds, 2> not_before{};  // what was held up by a hole arrives from here on
  };
  struct Ready {
    NamedLink* named;
    int to;
  };

  struct Port {
    double bytes_per_s = 0;
    Nanoseconds sends_until = 0;
    Nanoseconds receives_until = 0;
  };

  template <class Visit>
  void visit(Visit see) {
    for (const auto& named : links_) {
      if (named->link == nullptr) continue;
      Path& on = path(named->name);
      for (const int to : {0, 1}) {
        const auto side = static_cast<size_t>(to);
        if (!named->open[side] || on.hole[side]) continue;
        const Nanoseconds due = named->link->next_due(to);
        if (due == kNever) continue;
        see(*named, to, to == 0 ? named->name.low : named->name.high,
            named->link->is_given_up(1 - to) ? due : std::max(due, named->not_before[side]));
      }
    }
  }
  template <class Awake>
  std::array<int, 2> deliver(const Ready& ready, Awake awake) {
    const PathName name = ready.named->name;
    const std::array<int, 2> ranks = {name.low, name.high};
    const auto to = static_cast<size_t>(ready.to);
    const std::shared_ptr<transport::FakeLink> link = ready.named->link;
    link->deliver_next(ready.to, clock_.now());
    if (awake(ranks[1 - to])) link->push(1 - ready.to);
    forget_ended(*ready.named);
    return {ranks[to], ranks[1 - to]};
  }

  size_t index(const PathName& name) const;
  Port& port(int rank, int rail) { return ports_[static_cast<size_t>(rank * rails_ + rail)]; }
  // When a frame that without ports would be `due` begins to arrive; `duration`: for how long, at least.
  Nanoseconds through_ports(const PathName& name, int to, double bytes, Nanoseconds travels,
                            Nanoseconds due, Nanoseconds& duration);
  const NamedLink& of(const transport::FakeLink& link) const {
    return *links_[static_cast<size_t>(link.id)];
  }
  void forget_ended(NamedLink& named);
  void hold_up(const PathName& name, size_t side, Nanoseconds most);

  SimClock& clock_;
  const int ranks_;
  const int rails_;
  std::mt19937_64 random_;
  std::vector<Path> paths_;
  std::vector<Port> ports_;  // by rank and rail
  std::vector<std::unique_ptr<NamedLink>> links_;
  std::vector<Ready> ready_;
};

}  // namespace nezha::simulation
