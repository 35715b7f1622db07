#include "support/world.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <thread>

#include "base/json.h"
#include "support/sockets.h"

namespace nezha::testing {

std::string fresh_store() {
  static std::atomic<int> number{0};
  return "hash://world-" + std::to_string(number.fetch_add(1));
}

std::string fresh_tcp_store() {
  const std::string host = fresh_host();
  return "tcp://" + host + ":" + std::to_string(free_port_of(host));
}

namespace {

// Of the command line.
bool has_argument(std::string_view name) {
  std::ifstream arguments("/proc/self/cmdline");
  for (std::string word; std::getline(arguments, word, '\0');) {
    if (word == name) return true;
  }
  return false;
}

}  // namespace

bool has_fabric_rail() {
  static const bool asked = has_argument("--ofi-rails");
  return asked;
}

bool has_shared_memory() {
  static const bool asked = has_argument("--shm");
  return asked;
}

std::string loopback_config(int rails) {
  static const bool on_demand = has_argument("--on-demand");
  std::string config = on_demand ? "connect=demand\n" : "";
  config += has_shared_memory() ? "shm=on\n" : "shm=off\n";
  config += "log_level=error\nrails=";
  for (int rail = 1; rail <= rails; ++rail) {
    const bool fabric = has_fabric_rail() && rail == std::min(rails, 2);
    const std::string address = "127." + std::to_string(rail) + ".0.1";
    config += (rail == 1 ? "" : ",") + (fabric ? "ofi:net@" + address : address + "/32");
  }
  return config + "\n";
}

context::ContextRequest request_of(int rank, int ranks, const std::string& store, int rails) {
  context::ContextRequest request;
  request.rank = rank;
  request.world_size = ranks;
  request.store = store;
  request.timeout_s = kPatience_s / 2;
  request.config = loopback_config(rails);
  return request;
}

Result<std::unique_ptr<context::Communicator>> join(const context::ContextRequest& request) {
  auto context = context::Context::create(request);
  if (!context) return context.status();
  return context::Communicator::world(std::move(*context));
}

Status use(context::Communicator& comm) {
  std::vector<int32_t> data(1000, 1);
  NEZHA_RETURN_IF_ERROR(comm.all_reduce(data.data(), data.data(), data.size(), Dtype::int32,
                                        ReduceOp::sum, {}, nullptr));
  if (data == std::vector<int32_t>(1000, comm.world_size())) return Status::ok();
  return error(Code::internal, "wrong sum %d", data[0]);
}

World::World(const WorldOptions& options) : comms_(static_cast<size_t>(options.ranks)) {
  Watchdog watchdog("building a world", options.ranks);
  std::vector<Status> outcomes(comms_.size());
  const std::string store = fresh_store();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      context::ContextRequest request = request_of(rank, options.ranks, store, options.rails);
      request.timeout_s = options.timeout_s;
      request.config += options.config;
      if (!options.hosts.empty()) {
        const int host = options.hosts[static_cast<size_t>(rank)];
        request.config += "host_id=host " + std::to_string(host) + "\n";
      }
      auto comm = join(request);
      if (comm) comms_[static_cast<size_t>(rank)] = std::move(*comm);
      outcomes[static_cast<size_t>(rank)] = comm.status();
      watchdog.note(rank, "joined: " + comm.status().to_string());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& outcome : outcomes) {
    if (status_.is_ok()) status_ = outcome;
  }
}

World::~World() {
  Watchdog watchdog("leaving a world", size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size(); ++rank) {
    threads.emplace_back([&, rank] {
      leave(rank);
      watchdog.note(rank, "left");
    });
  }
  for (std::thread& thread : threads) thread.join();
}

std::vector<Status> World::run(const std::function<Status(Member&)>& body) {
  std::vector<Status> outcomes(comms_.size());
  if (!status_) return std::vector<Status>(comms_.size(), status_);
  Watchdog watchdog("a world of " + std::to_string(size()), size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size(); ++rank) {
    if (comms_[static_cast<size_t>(rank)] == nullptr) continue;
    threads.emplace_back([&, rank] {
      Member member{rank, comms_[static_cast<size_t>(rank)].get(),
                    [&watchdog, rank](std::string doing) { watchdog.note(rank, std::move(doing)); }};
      outcomes[static_cast<size_t>(rank)] = body(member);
      watchdog.note(rank, "finished: " + outcomes[static_cast<size_t>(rank)].to_string());
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

int64_t json_number(const std::string& json, const std::string& name) {
  auto parsed = parse_json(json);
  if (!parsed) return -1;
  return parsed->at(name).integer_or(-1);
}

std::set<std::string> algorithms_used(context::Communicator& comm) {
  std::set<std::string> names;
  auto flight = parse_json(comm.context().flight_json());
  if (!flight) return names;
  for (const JsonValue& entry : flight->at("operations").items()) {
    names.insert(std::string(entry.at("algorithm").string_or("")));
  }
  return names;
}

}  // namespace nezha::testing
