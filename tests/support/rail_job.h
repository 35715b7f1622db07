// RailJob: a small honest job on the transport alone (no store, no engine), so that a test can connect to
// its ports before, between and after the ranks that belong to it.
//
// Contract
//   Owner    the test. All ranks listen from construction on; each connects in a thread of its own when
//            it is started, and then sends one frame to every other rank on every connection it has.
//   Errors   a rank's outcome comes back from `finish()`; a rank that waits too long says for what.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "transport/tcp/tcp_transport.h"
#include "transport/transport.h"

namespace nezha::testing {

struct RailJobOptions {
  int ranks = 2;
  int rails = 1;  // 127.1.0.1, 127.2.0.1
  int streams_per_rail = 1;
  double probe_timeout_s = 20;
};

class RailJob {
 public:
  static constexpr uint64_t kJob = 0x0102030405060708;

  explicit RailJob(const RailJobOptions& options);
  ~RailJob();
  RailJob(const RailJob&) = delete;
  RailJob& operator=(const RailJob&) = delete;

  // The port on which `rank` takes connections from this host.
  uint16_t port_of(int rank, int rail = 0) const;
  const wire::Secret& secret() const { return secret_; }
  // Before start(rank): what that rank believes about others.
  transport::MeshRequest& request_of(int rank) { return requests_[static_cast<size_t>(rank)]; }

  void start(int rank);
  // Starts who was not started, waits for all; outcome by rank.
  std::vector<Status> finish();
  // After finish(): the connections that carried frames, and the rails that a rank left out.
  int connections_of(int rank) const { return connections_[static_cast<size_t>(rank)]; }
  const std::vector<std::string>& left_out_by(int rank) const {
    return left_out_[static_cast<size_t>(rank)];
  }

 private:
  Status run(int rank);

  const RailJobOptions options_;
  wire::Secret secret_;
  std::vector<std::unique_ptr<transport::TcpTransport>> transports_;
  std::vector<transport::MeshRequest> requests_;
  std::vector<std::thread> threads_;
  std::vector<Status> outcomes_;
  std::vector<int> connections_;
  std::vector<std::vector<std::string>> left_out_;
  std::atomic<int> ready_{0};  // ranks that have sent and heard everything
};

}  // namespace nezha::testing
