// aggregator.h: aggregation nodes, which are those of the module (context/aggregation.h).
#include "nezha/aggregator.h"

#include <memory>
#include <string>

#include "base/config.h"
#include "base/fork_guard.h"
#include "base/log.h"
#include "capi/handles.h"
#include "capi/last_error.h"
#include "context/aggregation.h"

struct nezha_aggregator {
  std::unique_ptr<nezha::context::AggregationNode> node;
  uint32_t generation = nezha::process_generation();
};

namespace {

using nezha::Code;
using nezha::error;
using nezha::Status;
using nezha::capi::guarded;

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
    auto module = nezha::context::aggregation_module();
    if (!module) return module.status();
    auto node = (*module)->start_node(options);
    if (!node) return node.status();
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
