// How a job's first connections are tried: not all peers at the same time.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/descriptor.h"
#include "rendezvous/socket.h"
#include "support/rail_job.h"
#include "transport/tcp/tcp_address.h"

namespace nezha::testing {
namespace {

// Accepts and says nothing, and counts who comes.
class SilentHost {
 public:
  SilentHost() : listener_(std::move(*rendezvous::listen_on("127.1.0.1", 0))) {
    thread_ = std::thread([this] {
      std::vector<Descriptor> open;
      while (!over_) {
        pollfd waits{listener_.get(), POLLIN, 0};
        if (poll(&waits, 1, 20) <= 0) continue;
        open.emplace_back(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        ++came_;
      }
    });
  }
  ~SilentHost() { stop(); }
  void stop() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
  }
  uint16_t port() const { return rendezvous::port_of(listener_); }
  // After stop().
  size_t came() const { return came_; }

 private:
  Descriptor listener_;
  std::atomic<bool> over_{false};
  size_t came_ = 0;
  std::thread thread_;
};

TEST(MeshBuilder, DialsEightPeersAtATimeAndNoMoreOnceOneDidNotAnswer) {
  constexpr int kRanks = 30;
  SilentHost host;
  RailJobOptions options;
  options.ranks = 1;
  options.probe_timeout_s = 0.3;
  RailJob job(options);
  transport::MeshRequest& request = job.request_of(0);
  for (int rank = 1; rank < kRanks; ++rank) {
    transport::PeerAddress peer = request.ranks[0];
    peer.rank = rank;
    peer.rails[0].blob = transport::encode(transport::TcpPorts{host.port(), host.port()});
    request.ranks.push_back(peer);
  }
  const Status outcome = job.finish()[0];
  host.stop();
  EXPECT_EQ(outcome.code(), Code::peer_lost) << outcome.to_string();
  EXPECT_NE(outcome.message().find("rank 8 on no rail"), std::string::npos) << outcome.to_string();
  EXPECT_EQ(outcome.message().find("rank 9"), std::string::npos) << outcome.to_string();
  EXPECT_EQ(host.came(), 8U);
}

TEST(MeshBuilder, ReachesAllOfMorePeersThanItDialsAtATime) {
  RailJobOptions options;
  options.ranks = 14;
  options.rails = 2;
  RailJob job(options);
  for (const Status& outcome : job.finish()) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
  for (int rank = 0; rank < options.ranks; ++rank) {
    EXPECT_EQ(job.connections_of(rank), 2 * (options.ranks - 1)) << "rank " << rank;
  }
}

}  // namespace
}  // namespace nezha::testing
