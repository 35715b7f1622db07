// SimFabric: rails of one-sided writes between simulated ranks: the connections, ports and rails that
// ship (modules/fabric), over a provider whose writes take as long as a seed wants
// (fabric/fake_fabric.h).
//
// Contract
//   Owner    a SimWorld, one at a time; goes after the connections and before the loops. One thread.
//   Paths    those of its SimNetwork: delay, rate, holes. Rails from `first_rail` on are its own.
//   Late     with `late_writes` a part of the writes lands long after it should, or twice. What is
//            counted says whether they came when it mattered.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "progress/loop.h"
#include "simulation/fabric/fake_fabric.h"
#include "simulation/sim_network.h"
#include "fabric/fabric_rail.h"

namespace nezha::simulation {

struct FabricCounters {
  uint64_t writes = 0;         // begun
  uint64_t landed = 0;
  uint64_t delayed = 0;        // begun, and late on purpose
  uint64_t unread = 0;         // stopped before they left
  uint64_t fenced = 0;         // came to a port that was closed
  uint64_t half_fenced = 0;    // a port was closed in their middle
  uint64_t refused = 0;        // by their key
  uint64_t twins_refused = 0;  // the second time
  uint64_t twins_landed = 0;
  // Of those that were stopped at the receiver:
  uint64_t after_copy = 0;     // their transfer had landed from another connection
  uint64_t after_return = 0;   // another connection was up in the place of theirs
};

class SimFabric final : public FabricNetwork {
 public:
  static constexpr Nanoseconds kLateMax = 3 * kSecond;
  using LoopOf = std::function<progress::Loop&(int rank)>;

  SimFabric(SimClock& clock, SimNetwork& network, int first_rail, bool late_writes, LoopOf loop_of,
            uint64_t seed);
  ~SimFabric() override;

  bool has(int rail) const { return rail >= first_rail_; }
  // Two connections that have not started; nothing reaches one before `open`.
  SimNetwork::Sides connect(const PathName& name, int lane, uint32_t epoch,
                            transport::ConnectionEvents& low, transport::ConnectionEvents& high);
  static void open(transport::Connection& connection);

  Nanoseconds next_due() const { return fake_fabric().next_due(); }
  bool deliver_one() { return fake_fabric().deliver_one(); }
  // Something waits at a port of that rank.
  bool has_news(int rank) const;
  // A frame landed that another kind of rail carried.
  void saw(const Passing& at);
  const FabricCounters& counters() const { return counters_; }
  std::string wrong() const { return fake_fabric().wrong(); }
  std::function<void(int rank)> on_news;

  // FabricNetwork
  Nanoseconds now() const override { return clock_.now(); }
  uint64_t draw() override { return random_(); }
  bool needs_local() const override { return needs_local_; }
  size_t depth() const override { return depth_; }
  bool completes_early() const override { return completes_early_; }
  Nanoseconds send(int from, int to, std::span<const std::byte> message) override;
  WriteTimes write(int from, int to, size_t bytes, uint64_t word) override;
  Nanoseconds refusal(int from, int to) override;
  Nanoseconds not_before(int from, int to) override;
  void on_completion(int port) override;
  void on_write_end(int from, int to, uint64_t word, WriteEnd end, bool twin) override;

 private:
  using Transfer = std::tuple<int, int, uint32_t, bool, uint64_t, uint32_t, uint16_t, uint16_t>;
  struct Port {
    PathName name;
    int lane = 0;
    uint32_t epoch = 0;
    int rank = 0;
    int peer = 0;
    uint64_t token = 0;                    // of what it says
    Nanoseconds busy_until = 0;
    Nanoseconds last_due = 0;
    uint32_t frames = 0;                   // data frames that it has sent
    std::map<uint32_t, Transfer> announced;  // by number
  };

  static Transfer transfer_of(int from, int to, const wire::FrameHeader& header);
  transport::FabricRail& rail(int rank, int rail);
  void note_message(Port& from, std::span<const std::byte> message);
  Nanoseconds leave(Port& from, size_t bytes);
  size_t side_to(const Port& from) const { return from.peer == from.name.low ? 0 : 1; }

  SimClock& clock_;
  SimNetwork& network_;
  const int first_rail_;
  const bool late_writes_;
  const LoopOf loop_of_;
  std::mt19937_64 random_;
  const bool needs_local_;
  const bool completes_early_;
  const size_t depth_;
  std::map<std::pair<int, int>, std::unique_ptr<transport::FabricRail>> rails_;
  std::map<int, Port> ports_;
  std::map<int, std::set<int>> ports_of_rank_;
  std::map<std::tuple<PathName, int>, uint32_t> epochs_;  // the newest of a path's lane
  std::map<Transfer, int> landed_;                        // by which port, 0: on another kind of rail
  FabricCounters counters_;
};

}  // namespace nezha::simulation
