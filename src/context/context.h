// Context: one rank of one job: its rails, its connections, its loop. The composition root of a rank:
// transports (rail_transports.h), stores and policies are chosen here.
//
// Contract
//   Owner    shared by the communicators made from it; the last one to go ends it.
//   Threads  `create` blocks; the rest from any thread.
//   Errors   `create` fails with the first error of any rank, on every rank.
#pragma once

#include <memory>

#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/status.h"
#include "context/aggregation.h"
#include "context/bootstrap.h"
#include "context/calibration.h"
#include "context/flight_dump.h"
#include "rails/rail_selector.h"
#include "engine/engine.h"
#include "progress/loop.h"
#include "rendezvous/store.h"
#include "transport/transport.h"

namespace nezha::context {

struct ContextRequest {
  int rank = 0;
  int world_size = 1;
  HiddenText store;                                   // its address, with its password
  const rendezvous::StoreCallbacks* callbacks = nullptr;  // not null: the caller's own store
  std::string job = "nezha";
  double timeout_s = 0;                               // > 0: instead of the configured ones
  HiddenText config;                                  // "key=value" lines
};

class Context {
 public:
  static Result<std::shared_ptr<Context>> create(const ContextRequest& request) NEZHA_EXCLUDES_LOCK;
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Starts the loop's own thread. Called once, after the world's group was made, because the first
  // frames of quicker ranks must find that group.
  Status start();

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  const Config& config() const { return config_; }
  progress::Loop& loop() { return *loop_; }
  engine::GroupCalls& groups() { return *engine_; }
  const engine::Engine& engine() const NEZHA_REQUIRES_LOCK { return *engine_; }
  // Null without an aggregation node.
  AggregationClient* aggregation() { return aggregation_.get(); }
  // True while somebody has to drive the loop.
  bool has_work() const NEZHA_REQUIRES_LOCK {
    return (aggregation_ != nullptr && aggregation_->has_work()) || engine_->has_work();
  }
  const schedule::CostTable& costs() const { return costs_; }
  // The user's own algorithm; null where there is none.
  const schedule::FileAlgorithm* file_algorithm() const { return file_algorithm_.get(); }
  double timeout_s() const { return timeout_s_; }
  Result<std::unique_ptr<rails::Policy>> make_policy() const;
  Result<std::unique_ptr<engine::MessageGate>> make_message_gate(
      const engine::PeerLinksList& peers) const;

  // JSON for nezha_describe.
  std::string rails_json() NEZHA_EXCLUDES_LOCK;
  std::string stats_json() NEZHA_EXCLUDES_LOCK;
  std::string flight_json() NEZHA_EXCLUDES_LOCK;
  // Writes flight_json() to `path`; "": where the option flight_dump says. Returns the file's name.
  Result<std::string> dump_flight(const std::string& path) NEZHA_EXCLUDES_LOCK;

 private:
  Context() = default;
  Status open(const ContextRequest& request) NEZHA_EXCLUDES_LOCK;
  Status choose_rails();
  Status choose_tcp_rails(const std::string& filter);
  Status check_authentication(const ContextRequest& request, bool has_secret);
  Status check_protection() const;
  void warn_of_strangers() const;
  Status join(const ContextRequest& request);
  Status connect() NEZHA_EXCLUDES_LOCK;
  engine::EngineOptions engine_options() const;
  transport::MeshRequest mesh_request() const;
  bool connects_on_demand() const;
  Status share_memory(const transport::MeshRequest& request, const std::vector<int>& apart)
      NEZHA_REQUIRES_LOCK;
  Status set_message_gate() NEZHA_EXCLUDES_LOCK;
  Status watch_flight() NEZHA_EXCLUDES_LOCK;
  // These two read the configured files: the rails' calibration, and the user's algorithm.
  Status load_calibration();
  Status load_algorithm();
  Status about_calibration(const Status& status) const;
  Status about_option(const char* name, FieldIndex field, const Status& status) const;
  double rate_of(const transport::RailAddress& rail) const;
  std::string address_of(size_t rail) const NEZHA_REQUIRES_LOCK;
  Status agree_costs();
  void find_hosts();
  Status open_aggregation() NEZHA_EXCLUDES_LOCK;
  void leave_store(double patience_s);
  void leave() NEZHA_EXCLUDES_LOCK;

  int rank_ = 0;
  int world_size_ = 1;
  Config config_;
  double timeout_s_ = 0;
  Nanoseconds deadline_ = kNever;
  std::vector<transport::RailAddress> rails_;
  std::vector<std::string> device_left_out_;
  std::vector<std::string> left_out_;   // sentences of all ranks, about their rails
  std::unique_ptr<rendezvous::Store> store_;
  std::unique_ptr<Bootstrap> bootstrap_;
  // Which processes can join: "secret": those with the configured secret; "store": those that can
  // write into the store; "process": this one only; "alone": none, in a world of one rank.
  std::string authentication_ = "alone";
  Session session_;
  bool met_ = false;
  std::optional<Calibration> calibration_;
  rails::Interference interference_;
  std::shared_ptr<const schedule::FileAlgorithm> file_algorithm_;
  std::string algorithm_digest_ = "none";  // names the file's content
  schedule::CostTable costs_;
  std::vector<int> host_of_;             // by rank, numbered from 0
  std::unique_ptr<transport::Transport> transport_;
  std::unique_ptr<progress::Loop> loop_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<AggregationClient> aggregation_;
  std::unique_ptr<FlightDump> flight_dump_;
};

}  // namespace nezha::context
