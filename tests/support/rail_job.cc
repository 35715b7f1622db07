#include "support/rail_job.h"

#include <algorithm>
#include <deque>

#include "support/watchdog.h"
#include "transport/tcp/tcp_address.h"

namespace nezha::testing {
namespace {

using transport::Connection;
using transport::Landing;
using transport::WorkQueue;
using transport::WorkRequest;

constexpr size_t kFrameBytes = 1000;

std::byte pattern(int rank, size_t i) { return static_cast<std::byte>(rank * 31 + i); }

// Receives one frame a connection and compares it with what its sender must have sent.
class Listener final : public transport::ConnectionEvents, public progress::LoopClient {
 public:
  // What connections send from, which they may hold until their end.
  std::vector<std::byte> data;
  std::deque<WorkRequest> requests;
  std::vector<std::unique_ptr<Connection>> connections;
  size_t landed = 0;
  size_t released = 0;
  bool wrong = false;
  Status lost;

  Landing on_frame(Connection&, const wire::FrameHeader& header) override {
    Landing landing;
    landing.refused = header.length != kFrameBytes;
    landing.destination = memory_.emplace_back(kFrameBytes).data();
    return landing;
  }
  void on_landed(Connection& connection, const wire::FrameHeader&, const Landing& landing) override {
    for (size_t i = 0; i < kFrameBytes; ++i) {
      wrong |= landing.destination[i] != pattern(connection.peer, i);
    }
    ++landed;
    connection.acknowledge(0);
  }
  void on_released(Connection&, WorkRequest&) override { ++released; }
  void on_credit(Connection&, uint64_t, uint64_t) override {}
  uint64_t credit_to_tell(Connection&, uint64_t) override { return 0; }
  void on_failure(Connection&, const wire::FrameHeader&, const std::string&) override {}
  void on_room(Connection&) override {}
  void on_control(Connection&, const wire::FrameHeader&, const std::string&) override {}
  void on_down(Connection&, WorkQueue& unacknowledged, const Status& why, bool) override {
    unacknowledged = WorkQueue();
    lost = why;
  }
  bool run(Nanoseconds) override {
    for (const auto& connection : connections) {
      if (connection->is_up() && connection->has_output()) connection->flush();
    }
    return false;
  }
  Nanoseconds next_wakeup() const override { return kNever; }

 private:
  std::deque<std::vector<std::byte>> memory_;
};

// Sends a frame on every connection and waits until all have come and all are acknowledged.
Status exchange(int rank, Listener& listener, progress::Loop::Lock& lock) {
  listener.data.resize(kFrameBytes);
  for (size_t i = 0; i < kFrameBytes; ++i) listener.data[i] = pattern(rank, i);
  for (const auto& connection : listener.connections) {
    WorkRequest& request = listener.requests.emplace_back();
    request.header.length = kFrameBytes;
    request.data = listener.data.data();
    if (!connection->post(request)) return error(Code::internal, "%s", listener.lost.to_string().c_str());
  }
  const size_t wanted = listener.connections.size();
  const Nanoseconds deadline =
      system_clock().now() + static_cast<Nanoseconds>(kPatience_s / 2 * kSecond);
  while (listener.lost.is_ok() && (listener.landed < wanted || listener.released < wanted)) {
    if (system_clock().now() > deadline) {
      return error(Code::timed_out, "rank %d: %zu of %zu frames came, %zu were acknowledged", rank,
                   listener.landed, wanted, listener.released);
    }
    lock.drive_once();
  }
  if (!listener.lost.is_ok()) return listener.lost;
  return listener.wrong ? error(Code::internal, "rank %d received wrong bytes", rank) : Status::ok();
}

}  // namespace

RailJob::RailJob(const RailJobOptions& options)
    : options_(options), secret_(wire::secret_from_text("the secret of an honest job")),
      requests_(static_cast<size_t>(options.ranks)), threads_(requests_.size()),
      outcomes_(requests_.size()), connections_(requests_.size()), left_out_(requests_.size()) {
  std::vector<transport::PeerAddress> ranks(requests_.size());
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].rank = static_cast<int>(rank);
    ranks[rank].host = "here";
    for (int rail = 1; rail <= options.rails; ++rail) {
      transport::RailAddress address;
      address.name = "lo" + std::to_string(rail);
      address.address = "127." + std::to_string(rail) + ".0.1";
      address.prefix_length = 16;
      ranks[rank].rails.push_back(address);
    }
    transports_.push_back(std::make_unique<transport::TcpTransport>());
    outcomes_[rank] = transports_.back()->listen(ranks[rank].rails, 0, 0);
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    requests_[rank].rank = static_cast<int>(rank);
    requests_[rank].job = kJob;
    requests_[rank].secret = secret_;
    requests_[rank].ranks = ranks;
    requests_[rank].streams_per_rail = options.streams_per_rail;
    requests_[rank].probe_timeout = static_cast<Nanoseconds>(options.probe_timeout_s * kSecond);
  }
}

RailJob::~RailJob() { finish(); }

uint16_t RailJob::port_of(int rank, int rail) const {
  const auto at = static_cast<size_t>(rank);
  return transport::ports_of(requests_[at].ranks[at].rails[static_cast<size_t>(rail)]).local;
}

void RailJob::start(int rank) {
  threads_[static_cast<size_t>(rank)] = std::thread([this, rank] {
    outcomes_[static_cast<size_t>(rank)] = run(rank);
  });
}

std::vector<Status> RailJob::finish() {
  Watchdog watchdog("a job on rails", options_.ranks);
  for (int rank = 0; rank < options_.ranks; ++rank) {
    std::thread& thread = threads_[static_cast<size_t>(rank)];
    const bool never_started = !thread.joinable() && outcomes_[static_cast<size_t>(rank)].is_ok() &&
                               connections_[static_cast<size_t>(rank)] == 0;
    if (never_started) start(rank);
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
  return outcomes_;
}

Status RailJob::run(int rank) {
  const auto at = static_cast<size_t>(rank);
  auto made = progress::Loop::create(system_clock(), 0);
  if (!made) return made.status();
  const std::unique_ptr<progress::Loop> loop = std::move(*made);
  Listener listener;
  loop->set_client(&listener);
  progress::Loop::Lock lock(*loop);
  auto mesh = transports_[at]->connect(requests_[at], *loop, listener);
  if (!mesh) return mesh.status();
  left_out_[at] = mesh->left_out;
  connections_[at] = static_cast<int>(mesh->connections.size());
  listener.connections = std::move(mesh->connections);
  const Status outcome = exchange(rank, listener, lock);
  // Nobody leaves while another still waits for its acknowledgements.
  ++ready_;
  const Nanoseconds deadline = system_clock().now() + 10 * kSecond;
  while (ready_ < options_.ranks && system_clock().now() < deadline) lock.drive_once();
  listener.connections.clear();
  return outcome;
}

}  // namespace nezha::testing
