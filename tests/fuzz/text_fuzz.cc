// Texts that users, launchers and files bring: configurations, addresses of stores and networks, filters
// of devices, JSON. Any bytes are a value or a sentence that says what is wrong.
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/config.h"
#include "base/ip_prefix.h"
#include "base/json.h"
#include "context/calibration.h"
#include "rails/rail_selector.h"
#include "fuzz/fuzz.h"
#include "redis/redis_address.h"
#include "rendezvous/address.h"

namespace nezha {
namespace {

void check_config(std::string_view text, bool in_environment) {
  ConfigInputs inputs;
  if (in_environment) {
    inputs.environment = {HiddenText("NEZHA_" + std::string(text.substr(0, 200))),
                          HiddenText("NEZHA_RAILS=" + std::string(text))};
  } else {
    inputs.code = text;
  }
  auto config = load_config(inputs);
  if (!config) {
    NEZHA_CHECK(!config.status().message().empty());
    NEZHA_CHECK(config.status().message().size() < 2000);
    return;
  }
  // What was accepted can be shown, and the secret is not in it.
  const std::string shown = config->to_json();
  NEZHA_CHECK(parse_json(shown).is_ok());
  NEZHA_CHECK(config->credit_bytes >= config->chunk_bytes && config->streams_per_rail >= 1);
  auto parsed = parse_json(shown);
  const std::string_view secret = parsed->at("secret").at("value").string_or("none");
  NEZHA_CHECK(secret == (config->secret.empty() ? "" : "(set)"));
}

void check_networks(const std::string& text) {
  const auto prefix = parse_ip_prefix(text);
  if (prefix) {
    NEZHA_CHECK(prefix->length >= 0 && prefix->length <= prefix->bits());
    NEZHA_CHECK(prefix->contains(*prefix));
    (void)parse_ip_prefix("10.1.2.3")->contains(*prefix);
    (void)prefix->contains(*parse_ip_prefix("fd00::1"));
  }
  rails::Device device;
  device.name = "eth0";
  device.address = "10.1.0.1";
  device.family = 2;
  device.prefix_length = 24;
  device.up = true;
  auto choices = rails::select_rails(std::span(&device, 1), text);
  if (choices) {
    for (const rails::RailChoice& choice : *choices) {
      NEZHA_CHECK(choice.usable || !choice.reason.empty());
    }
  }
}

void check_address(std::string_view text) {
  const auto address = rendezvous::parse_store_address(text, true);
  const bool of_redis = address && address.value().kind == rendezvous::StoreKind::redis;
  const Status refusal = of_redis ? rendezvous::parse_redis_address(text).status() : address.status();
  const size_t at = text.rfind('@');
  if (!refusal && at != std::string_view::npos && at > 16 && text.size() < 300) {
    // A password of some length is not part of the complaint.
    const std::string password(text.substr(at - 12, 12));
    NEZHA_CHECK(refusal.message().find(password + "@") == std::string::npos);
  }
}

void check_json(const std::string& text) {
  (void)parse_json(text);
  const auto calibration = context::parse_calibration(text);
  NEZHA_CHECK(calibration || !calibration.status().message().empty());
}

}  // namespace
}  // namespace nezha

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nezha;
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 6) {
    case 0: check_config(text, false); break;
    case 1: check_config(text, true); break;
    case 2: check_networks(text); break;
    case 3: check_address(text); break;
    case 4: check_json(text); break;
    default:
      (void)parse_weights(text);
      (void)parse_port_range(text);
      (void)parse_bytes(text);
      break;
  }
  return 0;
}
