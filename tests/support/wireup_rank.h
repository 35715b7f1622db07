// A rank of tests that make connections: its transport, its loop, and everything that it hears.
//
// Contract: one thread, with the progress lock held from its making on. What comes of dialling and
// probing comes within a turn, or the test fails.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "progress/loop.h"
#include "support/watchdog.h"
#include "transport/transport.h"
#include "wire/handshake.h"

namespace nezha::transport {

template <class TransportKind>
class WireupRank final : public progress::LoopClient, public ConnectionEvents, public JoinEvents {
 public:
  struct Failure {
    Path path;
    DialOutcome outcome;
    std::string reason;
  };
  struct Answer {
    Path path;
    Probed probed;
  };

  explicit WireupRank(const Clock& clock) : clock_(clock) {
    loop = std::move(*progress::Loop::create(clock, 0));
    loop->set_client(this);
    lock = std::make_unique<progress::Loop::Lock>(*loop);
  }
  ~WireupRank() override {
    manager.reset();
    joined.clear();
    mesh.connections.clear();
    lock.reset();
  }
  void connect() {
    auto made = transport.connect(request, *loop, *this);
    ASSERT_TRUE(made.is_ok()) << made.status().to_string();
    mesh = std::move(*made);
  }
  void make_connection_manager() {
    auto made = transport.manage(request, *loop, *this, *this);
    ASSERT_TRUE(made.is_ok()) << made.status().to_string();
    manager = std::move(*made);
  }
  void turn() {
    in_turn_ = true;
    lock->drive_once();
    in_turn_ = false;
  }

  bool run(Nanoseconds now) override {
    if (manager) manager->run(now);
    return false;
  }
  Nanoseconds next_wakeup() const override { return manager ? manager->next_wakeup() : kNever; }

  Landing on_frame(Connection&, const wire::FrameHeader&) override { return {}; }
  void on_landed(Connection&, const wire::FrameHeader&, const Landing&) override {}
  void on_released(Connection&, WorkRequest&) override {}
  void on_credit(Connection&, uint64_t, uint64_t) override {}
  uint64_t credit_to_tell(Connection&, uint64_t) override { return 0; }
  void on_failure(Connection&, const wire::FrameHeader&, const std::string& text) override {
    texts.push_back(text);
  }
  void on_room(Connection&) override {}
  void on_control(Connection&, const wire::FrameHeader&, const std::string&) override {}
  void on_down(Connection&, WorkQueue& unacknowledged, const Status&, bool) override {
    ++downs;
    unacknowledged = WorkQueue();
  }

  void on_joined(std::unique_ptr<Connection> connection) override {
    EXPECT_TRUE(in_turn_);
    joined.push_back(std::move(connection));
    if (at_event) at_event();
  }
  void on_dial_failed(const Path& path, DialOutcome outcome, const std::string& reason) override {
    EXPECT_TRUE(in_turn_);
    failures.push_back({path, outcome, reason});
    if (at_event) at_event();
  }
  void on_probed(const Path& path, Probed answer) override {
    EXPECT_TRUE(in_turn_);
    probed.push_back({path, answer});
  }
  void on_carrier(int, bool) override {}
  void on_connect_done(const ConnectResult& what) override {
    EXPECT_TRUE(in_turn_);
    met.push_back(what);
  }
  void on_connection_requested(int peer) override {
    EXPECT_TRUE(in_turn_);
    callers.push_back(peer);
    if (answers_calls) manager->connect(peer, {});
  }

  TransportKind transport;
  MeshRequest request;
  std::unique_ptr<progress::Loop> loop;
  std::unique_ptr<progress::Loop::Lock> lock;
  Mesh mesh;
  std::unique_ptr<ConnectionManager> manager;
  std::vector<std::unique_ptr<Connection>> joined;
  std::vector<Failure> failures;
  std::vector<Answer> probed;
  std::vector<ConnectResult> met;
  std::vector<int> callers;
  bool answers_calls = true;
  std::vector<std::string> texts;
  int downs = 0;
  std::function<void()> at_event;

 private:
  const Clock& clock_;
  bool in_turn_ = false;
};

// Two of them, which the test turns.
template <class TransportKind>
class WireupPair {
 protected:
  using Rank = WireupRank<TransportKind>;

  Rank& low() { return *ranks_[0]; }
  Rank& high() { return *ranks_[1]; }
  void make_ranks(const Clock& clock) {
    for (auto& rank : ranks_) rank = std::make_unique<Rank>(clock);
  }
  void end_ranks() {
    for (auto& rank : ranks_) rank.reset();
  }
  void connect_both() {
    std::thread other([&] { high().connect(); });
    low().connect();
    other.join();
  }
  void manage_both() {
    low().make_connection_manager();
    high().make_connection_manager();
  }
  void turn(int times = 1) {
    for (int i = 0; i < times; ++i) {
      for (auto& rank : ranks_) rank->turn();
    }
  }
  // Turns both ranks; fails when it takes longer than anything honest.
  template <class Done>
  void drive(Done done) {
    const Nanoseconds deadline =
        system_clock().now() + static_cast<Nanoseconds>(nezha::testing::kPatience_s * kSecond);
    while (!done()) {
      ASSERT_LT(system_clock().now(), deadline);
      turn();
    }
  }

  std::array<std::unique_ptr<Rank>, 2> ranks_;
};

// Makes the two a job of one host with two rails, on which they listen.
template <class TransportKind>
void listen_on_two_rails(WireupRank<TransportKind>& low, WireupRank<TransportKind>& high) {
  std::vector<PeerAddress> ranks(2);
  for (PeerAddress& address : ranks) {
    address.rank = static_cast<int>(&address - ranks.data());
    address.host = "here";
    for (const char* rail : {"127.1.0.1", "127.2.0.1"}) {
      RailAddress& added = address.rails.emplace_back();
      added.name = std::string("rail") + rail[4];
      added.address = rail;
      added.prefix_length = 16;
    }
    auto& rank = address.rank == 0 ? low : high;
    const Status listening = rank.transport.listen(address.rails, 0, 0);
    ASSERT_TRUE(listening.is_ok()) << listening.to_string();
  }
  for (auto* rank : {&low, &high}) {
    rank->request.rank = rank == &low ? 0 : 1;
    rank->request.job = 4711;
    rank->request.secret = wire::secret_from_text("between two");
    rank->request.ranks = ranks;
  }
}

}  // namespace nezha::transport
