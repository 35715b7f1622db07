#include "aggregation/server/start_node.h"

#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>

#include "aggregation/topology.h"
#include "wire/key_file.h"

namespace nezha::aggregation {
namespace {

constexpr int kThreadsMax = 256;

std::string text_of(const char* text, const char* fallback = "") {
  return text == nullptr ? fallback : text;
}

Result<AggregatorOptions> read_request(const nezha_aggregator_options& given) {
  if (given.port < 0 || given.port > 65535) {
    return error(Code::invalid_argument, "port %d is not in 0..65535", given.port);
  }
  // The socket would listen on every device instead.
  if (given.device != nullptr && given.device[0] != '\0' && if_nametoindex(given.device) == 0) {
    return error(Code::invalid_argument, "this host has no device '%s'", given.device);
  }
  auto key = wire::read_key_file("key_file", text_of(given.key_file));
  if (!key) return key.status();
  AggregatorOptions options;
  options.address = text_of(given.address, "0.0.0.0");
  options.device = text_of(given.device);
  options.port = static_cast<uint16_t>(given.port);
  options.key = *key;
  options.threads = given.threads > 0 ? given.threads
                                      : static_cast<int>(std::thread::hardware_concurrency());
  options.threads = std::clamp(options.threads, 1, kThreadsMax);
  if (given.jobs_max != 0) options.jobs_max = given.jobs_max;
  if (given.groups_max != 0) options.job.groups_max = given.groups_max;
  if (given.bytes_max != 0) options.job.bytes_max = given.bytes_max;
  if (given.total_max != 0) options.bytes_max = given.total_max;
  if (given.topology != nullptr && given.topology[0] != '\0') {
    auto topology = parse_topology(given.topology);
    if (!topology) return topology.status();
    options.topology = std::move(*topology);
    options.name = text_of(given.name);
  }
  return options;
}

// The socket's own sentence is about a rank's rails.
Status explained(const Status& refused, const AggregatorOptions& options) {
  if (refused.os_errno == 0) return refused;
  const char* advice = "";
  if (refused.os_errno == EADDRINUSE) advice = ": is a node running there already?";
  if (refused.os_errno == EADDRNOTAVAIL) advice = ": no device of this host has that address";
  return error(refused.code(), "cannot listen on %s port %u%s%s: %s%s", options.address.c_str(),
               options.port, options.device.empty() ? "" : " of device ", options.device.c_str(),
               std::strerror(refused.os_errno), advice).with_errno(refused.os_errno);
}

}  // namespace

Result<std::unique_ptr<Aggregator>> start_node(const nezha_aggregator_options& given) {
  auto options = read_request(given);
  if (!options) return options.status();
  auto node = Aggregator::start(*options);
  if (!node) return explained(node.status(), *options);
  return node;
}

}  // namespace nezha::aggregation
