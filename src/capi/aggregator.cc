// aggregator.h: aggregation nodes.
#include "nezha/aggregator.h"

#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "aggregation/server/aggregator.h"
#include "aggregation/topology.h"
#include "base/config.h"
#include "base/fork_guard.h"
#include "base/log.h"
#include "capi/handles.h"
#include "capi/last_error.h"
#include "wire/key_file.h"

struct nezha_aggregator {
  std::unique_ptr<nezha::aggregation::Aggregator> node;
  uint32_t generation = nezha::process_generation();
};

namespace {

using nezha::Code;
using nezha::error;
using nezha::Result;
using nezha::Status;
using nezha::capi::guarded;
using nezha::aggregation::AggregatorOptions;

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
  auto key = nezha::wire::read_key_file("key_file", text_of(given.key_file));
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
    auto topology = nezha::aggregation::parse_topology(given.topology);
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

Status check(nezha_aggregator_t aggregator) {
  if (aggregator == nullptr) return error(Code::invalid_argument, "the aggregation node is NULL");
  if (aggregator->generation == nezha::process_generation()) return Status::ok();
  return error(Code::invalid_argument, "the aggregation node was started before fork(): it is the "
               "parent's");
}

}  // namespace

extern "C" {

nezha_code nezha_aggregator_start(const nezha_aggregator_options* given, nezha_aggregator_t* out) {
  return guarded([&]() -> Status {
    if (given == nullptr || out == nullptr) {
      return error(Code::invalid_argument,
                   "nezha_aggregator_start needs options and a pointer for the result");
    }
    nezha_aggregator_options options{};
    NEZHA_RETURN_IF_ERROR(nezha::capi::read_sized(given, &options));
    auto config = nezha::load_config();
    if (!config) return config.status();
    NEZHA_RETURN_IF_ERROR(nezha::log::start(*config));
    auto request = read_request(options);
    if (!request) return request.status();
    auto node = nezha::aggregation::Aggregator::start(*request);
    if (!node) return explained(node.status(), *request);
    *out = new nezha_aggregator{.node = std::move(*node)};
    return Status::ok();
  });
}

nezha_code nezha_aggregator_port(nezha_aggregator_t aggregator, int* port) {
  return guarded([&]() -> Status {
    NEZHA_RETURN_IF_ERROR(check(aggregator));
    *port = aggregator->node->port();
    return Status::ok();
  });
}

nezha_code nezha_aggregator_stats(nezha_aggregator_t aggregator, char* text, size_t size,
                                  size_t* needed) {
  std::string content;
  const nezha_code code = guarded([&]() -> Status {
    NEZHA_RETURN_IF_ERROR(check(aggregator));
    content = aggregator->node->stats_json();
    return Status::ok();
  });
  return code != NEZHA_OK ? code : nezha::capi::give_text(content, text, size, needed);
}

void nezha_aggregator_stop(nezha_aggregator_t aggregator) {
  if (aggregator != nullptr && aggregator->generation == nezha::process_generation()) {
    delete aggregator;
  }
}

}  // extern "C"
