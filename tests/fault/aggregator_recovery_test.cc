// A rank loses its way to the aggregation node with the result in it, while the others have theirs and
// the hosts' part of the operation is still under way: they serve that rank out of the caller's memory.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <thread>
#include <vector>

#include "aggregation/server/aggregator.h"
#include "base/json.h"
#include "rendezvous/socket.h"
#include "support/job_key.h"
#include "support/sockets.h"
#include "support/world.h"

namespace nezha::testing {
namespace {

using context::Communicator;

constexpr const char* kAddress = "127.0.0.1";
constexpr int kRanks = 3;
// Of two million bytes ten thousand go through the node: short, and over long before the rest is.
constexpr size_t kElements = 500'000;
constexpr size_t kEnd = 2'500;

// Between ranks and node. One thread; holds back what the node says to one rank, then cuts it off.
class Proxy {
 public:
  explicit Proxy(uint16_t node) : node_(node), listener_(std::move(*rendezvous::listen_on(kAddress, 0))) {
    thread_ = std::thread([this] {
      while (!over_) turn();
    });
  }
  ~Proxy() {
    over_ = true;
    thread_.join();
  }
  uint16_t port() const { return rendezvous::port_of(listener_); }
  // From now on the rank of that connection hears nothing, and after `delay` it is cut off.
  void cut(int connection, Nanoseconds delay) {
    held_ = connection;
    cut_at_ = system_clock().now() + delay;
  }
  int cuts() const { return cuts_; }

 private:
  struct Way {
    Descriptor rank;
    Descriptor node;
  };

  void turn() {
    std::vector<pollfd> polled = {{listener_.get(), POLLIN, 0}};
    for (size_t i = 0; i < ways_.size(); ++i) {
      polled.push_back({ways_[i].rank.get(), POLLIN, 0});
      const bool is_held = static_cast<int>(i) == held_;
      polled.push_back({ways_[i].node.get(), static_cast<short>(is_held ? 0 : POLLIN), 0});
    }
    poll(polled.data(), polled.size(), cut_at_ == kNever ? 1 : 0);
    for (size_t i = ways_.size(); i-- > 0;) {
      Way& way = ways_[i];
      const bool up = polled[2 * i + 1].revents == 0 || forward(way.rank, way.node);
      const bool down = polled[2 * i + 2].revents == 0 || forward(way.node, way.rank);
      if (!up || !down) ways_.erase(ways_.begin() + static_cast<ptrdiff_t>(i));
    }
    if (polled[0].revents != 0) take_in();
    if (system_clock().now() < cut_at_) return;
    const int cut = held_.exchange(-1);
    cut_at_ = kNever;
    if (cut >= static_cast<int>(ways_.size())) return;
    ways_.erase(ways_.begin() + cut);
    ++cuts_;
  }
  static bool forward(const Descriptor& from, const Descriptor& to) {
    std::array<char, 65536> bytes;
    const ssize_t got = recv(from.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got <= 0) return false;
    const auto deadline = deadline_after(system_clock(), kPatience_s);
    return rendezvous::send_all(to, {bytes.data(), static_cast<size_t>(got)}, deadline) ==
           rendezvous::Transfer::done;
  }
  void take_in() {
    Descriptor rank(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    auto node = rendezvous::connect_to(kAddress, node_, deadline_after(system_clock(), kPatience_s));
    if (rank.get() >= 0 && node) ways_.push_back({std::move(rank), std::move(*node)});
  }

  const uint16_t node_;
  const Descriptor listener_;
  std::vector<Way> ways_;
  std::atomic<int> held_{-1};
  std::atomic<Nanoseconds> cut_at_{kNever};
  std::atomic<int> cuts_{0};
  std::atomic<bool> over_{false};
  std::thread thread_;
};

class Ranks {
 public:
  Ranks(Proxy& proxy, int cuts) : proxy_(proxy), cuts_(cuts) {}

  // Who fails leaves the others alone.
  Status work(Member& member) {
    Status outcome = go_through_cuts(member);
    if (!outcome) meet_.arrive_and_drop();
    return outcome;
  }

 private:
  Status go_through_cuts(Member& member) {
    for (int cut = 0; cut < cuts_; ++cut) {
      member.doing("cut " + std::to_string(cut));
      NEZHA_RETURN_IF_ERROR(await_node(*member.comm));
      meet_.arrive_and_wait();
      // At the end of the hosts' part, more or less.
      if (member.rank == 0) proxy_.cut(cut % kRanks, took_ * (cut % 8) / 8);
      meet_.arrive_and_wait();
      for (int round = 3 * cut; round < 3 * cut + 3; ++round) {
        NEZHA_RETURN_IF_ERROR(add_up(*member.comm, round));
      }
    }
    return Status::ok();
  }
  // Until the node is used, as rank 0 sees it.
  static Status await_node(Communicator& comm) {
    for (int32_t is_used = 0; is_used == 0;) {
      const bool here = comm.context().stats_json().find("\"stage\":\"active\"") != std::string::npos;
      is_used = comm.rank() == 0 && here ? 1 : 0;
      NEZHA_RETURN_IF_ERROR(
          comm.all_reduce(&is_used, &is_used, 1, Dtype::int32, ReduceOp::sum, {}, nullptr));
    }
    return Status::ok();
  }
  // In place; what came through the node is the end of it. The caller's memory is used again at once.
  Status add_up(Communicator& comm, int round) {
    thread_local std::vector<int32_t> data(kElements);
    const auto value = [&](size_t i) { return static_cast<int32_t>(i % 101) + round; };
    for (size_t i = 0; i < data.size(); ++i) data[i] = value(i) * (comm.rank() + 1);
    const Nanoseconds begun = system_clock().now();
    NEZHA_RETURN_IF_ERROR(
        comm.all_reduce(data.data(), data.data(), data.size(), Dtype::int32, ReduceOp::sum, {}, nullptr));
    const std::vector<int32_t> end(data.end() - ptrdiff_t{kEnd}, data.end());
    std::fill(data.end() - ptrdiff_t{kEnd}, data.end(), -1);
    if (comm.rank() == 0) took_ = system_clock().now() - begun;
    for (size_t i = 0; i < data.size(); ++i) {
      const int32_t sum = i < kElements - kEnd ? data[i] : end[i - (kElements - kEnd)];
      if (sum != 6 * value(i)) return wrong(comm, round, i, sum, 6 * value(i));
    }
    // All ranks are through with it then.
    meet_.arrive_and_wait();
    for (size_t i = kElements - kEnd; i < data.size(); ++i) {
      if (data[i] != -1) return wrong(comm, round, i, data[i], -1);
    }
    return Status::ok();
  }
  static Status wrong(const Communicator& comm, int round, size_t i, int32_t is, int32_t expected) {
    return error(Code::internal, "rank %d, round %d, element %zu: %d, not %d", comm.rank(), round, i, is,
                 expected);
  }

  Proxy& proxy_;
  const int cuts_;
  std::barrier<> meet_{kRanks};
  Nanoseconds took_ = kMillisecond;  // rank 0's: the last operation
};

TEST(AggregatorRecovery, ServesOthersOutOfMemoryThatIsNotGivenBackYet) {
  constexpr int kCuts = 40;
  aggregation::AggregatorOptions node_options;
  node_options.address = kAddress;
  node_options.port = free_port_of(kAddress);
  Proxy proxy(node_options.port);
  // Ranks go where the node says it is.
  node_options.topology = aggregation::flat_topology(kAddress, proxy.port());
  node_options.name = node_options.topology.nodes[0].name;
  auto node = aggregation::Aggregator::start(node_options);
  ASSERT_TRUE(node) << node.status().to_string();
  WorldOptions options;
  options.ranks = kRanks;
  options.config = "aggregator=" + std::string(kAddress) + ":" + std::to_string(proxy.port()) +
                   "\naggregator_share=0.005\n" + job_key_line();
  World world(options);
  ASSERT_TRUE(world.status()) << world.status().to_string();
  Ranks ranks(proxy, kCuts);
  for (const Status& outcome : world.run([&](Member& member) { return ranks.work(member); })) {
    EXPECT_TRUE(outcome) << outcome.to_string();
  }
  EXPECT_EQ(proxy.cuts(), kCuts);
  auto stats = parse_json(world.comm(0).context().stats_json());
  ASSERT_TRUE(stats);
  const auto& recovered = stats->at("aggregation").at("communicators").items().at(0);
  EXPECT_GE(recovered.at("recoveries").integer_or(0), kCuts);
}

}  // namespace
}  // namespace nezha::testing
