#include "aggregation/client/options.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "aggregation/client/topology_client.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "base/socket_address.h"
#include "rails/rail_selector.h"
#include "transport/tcp/tcp_address.h"

namespace nezha::aggregation {
namespace {

constexpr Nanoseconds kNodeDeadline = 300 * kMillisecond;
constexpr Nanoseconds kTopologyTimeout = 1 * kSecond;

// The address from which the system would send to the node.
Result<std::string> source_towards(const NodeAddress& node) {
  const SocketAddress there = parse_socket_address(node.address, node.port).value_or(SocketAddress());
  const Descriptor fd(socket(there.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd || connect(fd.get(), there.get(), there.length) != 0) {
    return error(Code::invalid_argument, "aggregator %s: no network device leads there: %s",
                 node.address.c_str(), std::strerror(errno)).with_errno(errno);
  }
  return numeric_host(local_address(fd.get()).get());
}

Result<transport::RailAddress> rail_towards(const Config& config, const NodeAddress& node) {
  auto devices = rails::list_devices();
  if (!devices) return devices.status();
  std::string source;
  if (config.aggregator_device.empty()) {
    auto found = source_towards(node);
    if (!found) return found.status();
    source = *found;
  }
  for (const rails::Device& device : *devices) {
    const bool fits =
        source.empty() ? device.name == config.aggregator_device : device.address == source;
    if (!fits || device.address.empty()) continue;
    const auto prefix = static_cast<uint8_t>(device.prefix_length);
    return transport::RailAddress{device.name, device.address, prefix, device.mtu,
                                  device.speed_bits_per_s};
  }
  return error(Code::invalid_argument,
               "aggregator_device %s is not a network device with an address on this host",
               source.empty() ? config.aggregator_device.c_str() : source.c_str());
}

// A node that does not answer is taken for the only one. It may come up later.
Topology topology_of(const NodeAddress& node, const transport::RailAddress& rail,
                               const NodeSessionRequest& session, std::string* my_address) {
  TopologyRequest request;
  request.address = node.address;
  request.port = node.port;
  request.device = rail.name;
  request.job = session.job;
  request.timeout = kTopologyTimeout;
  auto topology = fetch_topology(request, my_address);
  if (topology) return std::move(*topology);
  NEZHA_LOG(warn, "aggregation", "rank %d: aggregation node %s:%u: %s; host rails carry everything until "
            "it answers", session.rank, node.address.c_str(), node.port,
            topology.status().message().c_str());
  *my_address = rail.address;
  return flat_topology(node.address, node.port);
}

}  // namespace

Result<JobKey> configured_job_key(const Config& config) {
  if (!config.aggregator_job_key.empty()) return job_key_from_text(config.aggregator_job_key);
  return error(Code::invalid_argument, "aggregator %s: this rank has no key for it%s: start the ranks "
               "with `nezha run`, which derives their job's key from aggregator_key_file, or set "
               "aggregator_job_key to what `nezha aggregator job-key` prints", config.aggregator.c_str(),
               config.aggregator_key_file.empty() ? "" : ", and ranks do not read the nodes' own");
}

Result<NodeClientOptions> make_client_options(const Config& config,
                                              const context::AggregationClient::Rank& rank) {
  const bool encrypts = config.tls == "on";
  if (encrypts || config.integrity == "on") {
    return error(Code::invalid_argument, "aggregator %s: data for an aggregation node cannot be %s, "
                 "but %s is on; set one of them only", config.aggregator.c_str(),
                 encrypts ? "encrypted" : "authenticated byte by byte", encrypts ? "tls" : "integrity");
  }
  auto manager = parse_node_address(config.aggregator);
  if (!manager) return manager.status();
  auto share = parse_share(config.aggregator_share);
  if (!share) return share.status();
  auto key = configured_job_key(config);
  if (!key) return key.status();
  auto rail = rail_towards(config, *manager);
  if (!rail) return rail.status();
  NodeClientOptions options;
  options.share = *share;
  options.exact_order = config.deterministic == "on";
  for (size_t i = 0; i < rank.rails.size(); ++i) {
    const bool is_beside = rank.rails[i].name == rail->name;
    if (is_beside) options.rails_beside |= 1u << i;
    options.has_rail_apart |= !is_beside;
  }
  NodeSessionRequest& session = options.session;
  session.rank = rank.rank;
  session.ranks = rank.ranks;
  session.job = *key;
  session.run = rank.run;
  std::string my_address;
  options.topology = topology_of(*manager, *rail, session, &my_address);
  session.nodes = options.topology.size();
  session.node = options.topology.leaf_of(my_address);
  if (session.node < 0) {
    return error(Code::invalid_argument, "aggregator %s: no aggregation node serves %s; add it to a "
                 "node's \"serves\" in the topology file", config.aggregator.c_str(), my_address.c_str());
  }
  const TopologyNode& node = options.topology.nodes[static_cast<size_t>(session.node)];
  session.rail = std::move(*rail);
  session.node_rail.address = node.address;
  session.node_rail.blob = transport::encode(transport::TcpPorts{node.port, node.port});
  session.peer_deadline = kNodeDeadline;
  session.congestion_control = config.congestion_control;
  return options;
}

}  // namespace nezha::aggregation
