#include "aggregation/aggregation_module.h"

#include "aggregation/client/client.h"
#include "aggregation/questions.h"
#include "aggregation/server/start_node.h"
#include "context/aggregation.h"

namespace nezha::aggregation {
namespace {

class Nodes final : public context::AggregationModule {
 public:
  Result<std::unique_ptr<AggregationClient>> make_client(
      const Config& config, const AggregationClient::Rank& rank, progress::Loop& loop,
      const AggregationClient::Hosts& hosts) const NEZHA_EXCLUDES_LOCK override {
    auto options = make_client_options(config, rank);
    if (!options) return options.status();
    auto client = std::make_unique<NodeClient>(loop, hosts, std::move(*options));
    loop.set_client(client.get());
    return std::unique_ptr<AggregationClient>(std::move(client));
  }

  Result<std::unique_ptr<context::AggregationNode>> start_node(
      const nezha_aggregator_options& options) const NEZHA_EXCLUDES_LOCK override {
    auto node = aggregation::start_node(options);
    if (!node) return node.status();
    return std::unique_ptr<context::AggregationNode>(std::move(*node));
  }

  Status describe_node(const Config& config, JsonWriter& json) const override {
    return aggregation::describe_node(config, json);
  }

  Result<std::string> derive_job_key(const std::string& key_file, const std::string& job) const override {
    auto key = aggregation::derive_job_key(key_file, job);
    if (!key) return key.status();
    return to_text(*key);
  }
};

}  // namespace

const Module& aggregation_module() {
  static const Nodes nodes;
  static const Module module{Nodes::kInterface, static_cast<const context::AggregationModule*>(&nodes),
                             log::set_level};
  return module;
}

}  // namespace nezha::aggregation
