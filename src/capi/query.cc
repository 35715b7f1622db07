// nezha.h: questions that need no communicator.
#include <openssl/crypto.h>
#include <sys/socket.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/bind_device.h"
#include "base/config.h"
#include "base/json.h"
#include "base/module.h"
#include "capi/last_error.h"
#include "capi/queries.h"
#include "context/aggregation.h"
#include "context/identity.h"
#include "context/launch_environment.h"
#include "context/rail_list.h"
#include "rails/rail_selector.h"
#include "nezha/nezha.h"
#include "reduce/reduce.h"

namespace {

using nezha::Code;
using nezha::error;
using nezha::JsonValue;
using nezha::JsonWriter;
using nezha::Result;
using nezha::Status;
using nezha::kVersion;

Result<std::string> devices(const JsonValue& request) {
  auto config = nezha::load_config();
  if (!config) return config.status();
  auto found = nezha::rails::list_devices();
  if (!found) return found.status();
  const std::string filter(request.at("filter").string_or(config->rails));
  auto choices = nezha::rails::select_rails(*found, filter);
  if (!choices) return choices.status();
  JsonWriter json;
  json.begin_array();
  for (const nezha::rails::RailChoice& choice : *choices) {
    const nezha::rails::Device& device = choice.device;
    json.begin_object().field("device", device.name).field("address", device.address);
    json.field("family", device.family == AF_INET6 ? "ipv6" : "ipv4");
    json.field("prefix_length", device.prefix_length).field("mtu", device.mtu);
    json.key("speed_gbps");
    if (device.speed_bits_per_s > 0) json.value(device.speed_bits_per_s / 1e9);
    else json.null();
    json.field("numa_node", device.numa_node).field("driver", device.driver);
    json.field("up", device.up).field("usable", choice.usable).field("reason", choice.reason);
    const Status bound = choice.usable ? nezha::can_bind_to_device(device.name) : Status::ok();
    json.field("unbound", bound.message()).end_object();
  }
  return json.end_array().take();
}

// The key that a launcher hands to its ranks: {"key_file", "job"} -> {"job_key"}, "" where no key
// file is known.
Result<std::string> job_key(const JsonValue& request) {
  auto config = nezha::load_config();
  if (!config) return config.status();
  const std::string file(request.at("key_file").string_or(config->aggregator_key_file));
  JsonWriter json;
  json.begin_object();
  if (file.empty()) return json.field("job_key", "").end_object().take();
  auto module = nezha::context::aggregation_module();
  if (!module) return module.status();
  auto key = (*module)->derive_job_key(file, std::string(request.at("job").string_or("")));
  if (!key) return key.status();
  return json.field("job_key", *key).end_object().take();
}

// The configured aggregation node, and what it answers.
Result<std::string> aggregator() {
  auto config = nezha::load_config();
  if (!config) return config.status();
  JsonWriter json;
  json.begin_object().field("configured", config->aggregator);
  if (config->aggregator.empty()) return json.end_object().take();
  auto module = nezha::context::aggregation_module();
  if (module) {
    NEZHA_RETURN_IF_ERROR((*module)->describe_node(*config, json));
  } else {
    json.field("reachable", false).field("reason", module.status().message());
  }
  return json.end_object().take();
}

// Whether a job that starts here has a secret: which option says so, where it was set, and what is wrong
// with it. The answer never has the secret.
Result<std::string> authentication() {
  auto config = nezha::load_config();
  if (!config) return config.status();
  const bool by_value = !config->secret.empty();
  const bool has_secret = by_value || !config->secret_file.empty();
  const auto field = by_value ? nezha::FieldIndex::secret : nezha::FieldIndex::secret_file;
  auto secret = nezha::context::configured_secret(*config);
  JsonWriter json;
  json.begin_object().field("secret", !has_secret ? "" : by_value ? "secret" : "secret_file");
  json.field("origin", has_secret ? config->origin(field) : "");
  json.field("option", config->authentication);
  json.field("reason", secret.status().message());
  return json.end_object().take();
}

// The identity by which other ranks would know that they share this host, and, if the option
// host_id gives it, where that was set.
Result<std::string> host() {
  auto config = nezha::load_config();
  if (!config) return config.status();
  const bool is_named = !config->host_id.empty();
  JsonWriter json;
  json.begin_object();
  json.field("identity", is_named ? config->host_id : nezha::context::host_identity());
  json.field("origin", is_named ? config->origin(nezha::FieldIndex::host_id) : "");
  return json.end_object().take();
}

std::optional<int> given_number(const JsonValue& request, const char* name,
                                std::optional<int> otherwise) {
  const JsonValue& given = request.at(name);
  if (!given.is_number()) return otherwise;
  return static_cast<int>(std::clamp<int64_t>(given.integer_or(-1), INT32_MIN, INT32_MAX));
}

// The rank that a launcher gave a process with these environment variables; null where none did.
Result<std::string> launch(const JsonValue& request) {
  const JsonValue& environment = request.at("environment");
  std::map<std::string, std::string, std::less<>> values;
  for (const auto& [name, value] : environment.fields()) values.emplace(name, value.string_or(""));
  const nezha::context::Variables variables = [&](const char* name) -> const char* {
    const auto found = values.find(std::string_view(name));
    return found == values.end() ? nullptr : found->second.c_str();
  };
  auto found = nezha::context::find_launch(variables);
  if (!found) return found.status();
  const auto rank = given_number(request, "rank", found->rank);
  const auto world_size = given_number(request, "world_size", found->world_size);
  if (!rank && !world_size) return std::string("null");
  NEZHA_RETURN_IF_ERROR(nezha::context::check_rank(rank, world_size));
  JsonWriter json;
  json.begin_object().field("rank", *rank).field("world_size", *world_size);
  json.field("launcher", found->launcher).field("variable", found->variable);
  json.field("is_batch_script", found->is_batch_script);
  for (const auto& [name, number] : {std::pair("local_rank", found->local_rank),
                                     std::pair("local_size", found->local_size)}) {
    json.key(name);
    if (number) json.value(*number);
    else json.null();
  }
  json.field("job", nezha::context::job_name(variables, *found));
  if (request.at("meet").bool_or(false)) {
    auto found_store = nezha::context::find_rendezvous(variables, *found, *rank, *world_size);
    if (!found_store) return found_store.status();
    json.field("store", found_store->store).field("is_torchs", found_store->is_torchs);
  }
  return json.end_object().take();
}

// Whether the module "queries" answers this topic.
bool is_for_module(std::string_view topic) {
  const auto& topics = nezha::capi::Queries::kTopics;
  return std::find(std::begin(topics), std::end(topics), topic) != std::end(topics);
}

Result<std::string> ask_module(std::string_view topic, const JsonValue& request) {
  auto queries = nezha::open_module("queries", nezha::capi::Queries::kInterface);
  if (!queries) return queries.status();
  return static_cast<const nezha::capi::Queries*>(*queries)->answer(topic, request);
}

std::string build_info() {
  JsonWriter json;
  json.begin_object().field("version", kVersion).field("commit", NEZHA_COMMIT);
  json.field("compiler", __VERSION__);
  json.field("instruction_set", nezha::reduce::instruction_set());
  json.field("encryption", OpenSSL_version(OPENSSL_VERSION));
  json.key("transports").begin_array().value("tcp");
  if (nezha::context::has_rail_kind("ofi")) json.value("ofi");
  json.end_array();
  return json.end_object().take();
}

}  // namespace

extern "C" {

nezha_code nezha_query(const char* what, const char* request, char* text, size_t size,
                       size_t* needed) {
  std::string content;
  const nezha_code code = nezha::capi::guarded([&]() -> Status {
    auto parsed = nezha::parse_json(request == nullptr || request[0] == '\0' ? "{}" : request);
    if (!parsed) return parsed.status();
    const std::string topic = what == nullptr ? "" : what;
    Result<std::string> answer = std::string();
    if (topic == "devices") answer = devices(*parsed);
    else if (is_for_module(topic)) answer = ask_module(topic, *parsed);
    else if (topic == "fabric") answer = nezha::context::describe_rail_kind("ofi");
    else if (topic == "launch") answer = launch(*parsed);
    else if (topic == "host") answer = host();
    else if (topic == "aggregator") answer = aggregator();
    else if (topic == "authentication") answer = authentication();
    else if (topic == "job_key") answer = job_key(*parsed);
    else if (topic == "config") answer = nezha::config_schema_json();
    else if (topic == "build") answer = build_info();
    else return error(Code::invalid_argument, "cannot answer '%s': devices, fabric, explain, divide, "
                      "schedule, algorithm, bind, learn, cut, reduction, launch, host, aggregator, "
                      "authentication, job_key, config or build", topic.c_str());
    if (!answer) return answer.status();
    content = std::move(*answer);
    return Status::ok();
  });
  return code != NEZHA_OK ? code : nezha::capi::give_text(content, text, size, needed);
}

size_t nezha_dtype_size(nezha_dtype dtype) {
  return nezha::dtype_size(static_cast<nezha::Dtype>(dtype));
}

const char* nezha_version(void) { return kVersion; }

}  // extern "C"
