#include "aggregation/questions.h"

#include "aggregation/client/options.h"
#include "aggregation/client/topology_client.h"
#include "wire/key_file.h"
#include "wire/little_endian.h"

namespace nezha::aggregation {
namespace {

// The key for a process that is no rank, such as `nezha info`: it may hold the nodes' own key in
// place of a job's.
Result<JobKey> job_key_here(const Config& config) {
  const bool derives = config.aggregator_job_key.empty() && !config.aggregator_key_file.empty();
  return derives ? derive_job_key(config.aggregator_key_file, "") : configured_job_key(config);
}

}  // namespace

Result<JobKey> derive_job_key(const std::string& key_file, const std::string& job) {
  auto key = wire::read_key_file("aggregator_key_file", key_file);
  if (!key) return key.status();
  JobKey made{job_number_of(job), {}};
  if (job.empty()) {
    auto nonce = wire::random_nonce();
    if (!nonce) return nonce.status();
    made.job = wire::load_le<uint64_t>(nonce->data());
  }
  made.key = job_key_of(*key, made.job);
  return made;
}

Status describe_node(const Config& config, JsonWriter& json) {
  auto node = parse_node_address(config.aggregator);
  if (!node) return node.status();
  auto key = job_key_here(config);
  if (!key) {
    json.field("reachable", false).field("reason", key.status().message());
    return Status::ok();
  }
  TopologyRequest request;
  request.address = node->address;
  request.port = node->port;
  request.device = config.aggregator_device;
  request.job = *key;
  std::string my_address;
  auto topology = fetch_topology(request, &my_address);
  json.field("reachable", topology.is_ok()).field("reason", topology.status().message());
  if (!topology) return Status::ok();
  const int leaf = topology->leaf_of(my_address);
  json.field("served_by", leaf < 0 ? "" : topology->nodes[static_cast<size_t>(leaf)].name);
  json.key("topology").raw(to_json(*topology));
  return Status::ok();
}

}  // namespace nezha::aggregation
