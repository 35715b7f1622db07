#include "base/config.h"

#include <arpa/inet.h>
#include <unistd.h>  // environ

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <mutex>
#include <numeric>
#include <optional>

#include "base/config_fields.h"
#include "base/file.h"

namespace nezha {
namespace {

using config_internal::Field;
using config_internal::fields;
using config_internal::parse_number;

constexpr size_t kFileBytesMax = 64 * 1024;
constexpr std::string_view kFileVariable = "NEZHA_CONF_FILE";
constexpr std::string_view kAliasOfRails = "NEZHA_SOCKET_IFNAME";
constexpr std::array<std::string_view, 2> kForeignRails = {"GLOO_SOCKET_IFNAME",
                                                           "NCCL_SOCKET_IFNAME"};

// Beginnings of the names that belong to the launcher, the lab and the bench.
constexpr std::array<std::string_view, 5> kToolPrefixes = {"NEZHA_STORE", "NEZHA_JOB", "NEZHA_LAB",
                                                           "NEZHA_BENCH", "NEZHA_TORCH"};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::optional<size_t> find_field(std::string_view name) {
  for (size_t i = 0; i < kConfigFields; ++i) {
    if (fields()[i].name == name) return i;
  }
  return std::nullopt;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

// The field that somebody who wrote `name` most likely meant.
const Field& nearest_field(std::string_view name) {
  constexpr size_t kLongest = 64;  // the table's names are shorter; bounds the work
  std::string wanted(name.substr(0, kLongest));
  for (char& letter : wanted) letter = static_cast<char>(std::tolower(letter & 0x7F));
  if (wanted.starts_with("nezha_")) wanted.erase(0, 6);
  return *std::min_element(fields().begin(), fields().end(), [&](const Field& a, const Field& b) {
    return edit_distance(wanted, a.name) < edit_distance(wanted, b.name);
  });
}

class Loader {
 public:
  explicit Loader(const ConfigInputs& inputs) : inputs_(inputs) {}

  Result<Config> load() {
    for (const std::string_view name : kForeignRails) {
      if (const auto value = variable(name); value && config_.rails.empty()) {
        NEZHA_RETURN_IF_ERROR(set(static_cast<size_t>(FieldIndex::rails), *value, from(name)));
      }
    }
    NEZHA_RETURN_IF_ERROR(read_file());
    if (const auto value = variable(kAliasOfRails)) {
      NEZHA_RETURN_IF_ERROR(
          set(static_cast<size_t>(FieldIndex::rails), *value, from(kAliasOfRails)));
    }
    NEZHA_RETURN_IF_ERROR(read_environment());
    NEZHA_RETURN_IF_ERROR(read_lines(inputs_.code, "code", true));
    NEZHA_RETURN_IF_ERROR(check_together());
    warn_of_unused();
    return std::move(config_);
  }

 private:
  static std::string from(std::string_view variable_name) {
    return "environment " + std::string(variable_name);
  }

  // A variable that is set but empty counts as not set.
  std::optional<std::string_view> variable(std::string_view name) const {
    for (const HiddenText& entry : inputs_.environment) {
      if (entry.size() > name.size() + 1 && entry.starts_with(name) && entry[name.size()] == '=') {
        return std::string_view(entry).substr(name.size() + 1);
      }
    }
    return std::nullopt;
  }

  Status set(size_t index, std::string_view text, std::string origin) {
    const Field& field = fields()[index];
    if (text.find('\0') != std::string_view::npos || !field.assign(config_, text)) {
      const std::string shown(field.hidden() ? "(hidden)" : text.substr(0, 200));
      return error(Code::invalid_argument, "configuration: %.*s (from %s) is '%s'; accepted: %s",
                   static_cast<int>(field.name.size()), field.name.data(), origin.c_str(),
                   shown.c_str(), field.accepted().c_str());
    }
    config_.origins[index] = std::move(origin);
    return Status::ok();
  }

  Status read_environment() {
    for (const HiddenText& entry : inputs_.environment) {
      const size_t equals = entry.find('=');
      if (!entry.starts_with("NEZHA_") || equals == std::string::npos) continue;
      const std::string_view name = std::string_view(entry).substr(0, equals);
      const std::string_view value = std::string_view(entry).substr(equals + 1);
      if (name == kFileVariable || name == kAliasOfRails || value.empty()) continue;
      if (std::any_of(kToolPrefixes.begin(), kToolPrefixes.end(),
                      [&](std::string_view prefix) { return name.starts_with(prefix); })) {
        continue;
      }
      const auto match = std::find_if(fields().begin(), fields().end(), [&](const Field& field) {
        return field.environment_name() == name;
      });
      if (match == fields().end()) {
        config_.warnings.push_back("configuration: unknown environment variable " +
                                   std::string(name) + " is ignored; did you mean " +
                                   nearest_field(name).environment_name() + "?");
        continue;
      }
      NEZHA_RETURN_IF_ERROR(
          set(static_cast<size_t>(match - fields().begin()), value, from(name)));
    }
    return Status::ok();
  }

  Status read_file() {
    std::string path;
    const auto named = variable(kFileVariable);
    if (named) {
      path = *named;
    } else if (const auto home = variable("HOME")) {
      path = std::string(*home) + "/.nezha.conf";
    } else {
      return Status::ok();
    }
    std::string doubt;
    const auto text = ::nezha::read_file<HiddenText>(path, kFileBytesMax + 1, &doubt);
    if (!text) {
      if (!named && text.status().code() != Code::exhausted) return Status::ok();
      return error(text.status().code(), "configuration (from %s): %s",
                   named ? "environment NEZHA_CONF_FILE" : "HOME", text.status().message().c_str())
          .with_errno(text.status().os_errno);
    }
    if (!doubt.empty()) config_.warnings.push_back("configuration: " + doubt);
    if (text.value().size() > kFileBytesMax) {
      return error(Code::invalid_argument, "configuration: file '%s' is larger than %zu bytes",
                   path.c_str(), kFileBytesMax);
    }
    return read_lines(text.value(), "file " + path, false);
  }

  // Unknown names are the caller's mistake in code, and only worth a warning in a file, which may
  // be shared with another version.
  Status read_lines(std::string_view text, const std::string& where, bool strict) {
    size_t number = 0;
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      const std::string_view line = trimmed(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
      ++number;
      if (line.empty() || line.front() == '#') continue;
      const std::string at = strict ? where : where + ":" + std::to_string(number);
      const size_t equals = line.find('=');
      if (equals == std::string_view::npos) {
        return error(Code::invalid_argument, "configuration: %s, line %zu is not 'key=value'",
                     where.c_str(), number);
      }
      const std::string_view name = trimmed(line.substr(0, equals));
      const auto index = find_field(name);
      if (index) {
        NEZHA_RETURN_IF_ERROR(set(*index, trimmed(line.substr(equals + 1)), at));
        continue;
      }
      std::string complaint = "configuration: unknown key '" + std::string(name.substr(0, 100)) +
                              "' in " + at + "; did you mean '" +
                              std::string(nearest_field(name).name) + "'?";
      if (strict) return {Code::invalid_argument, std::move(complaint)};
      config_.warnings.push_back(std::move(complaint));
    }
    return Status::ok();
  }

  // Nobody should believe that the shares are those.
  void warn_of_unused() {
    if (config_.weights.empty() || config_.policy == "static") return;
    config_.warnings.push_back("configuration: weights=" + config_.weights + " (from " +
                               std::string(config_.origin(FieldIndex::weights)) +
                               ") changes nothing: policy is " + config_.policy + ", not static");
  }

  Status check_together() const {
    if (config_.credit_bytes >= config_.chunk_bytes) return Status::ok();
    return error(Code::invalid_argument,
                 "configuration: credit_bytes is %llu (from %s), less than chunk_bytes, %llu (from "
                 "%s); accepted: at least one chunk",
                 static_cast<unsigned long long>(config_.credit_bytes),
                 std::string(config_.origin(FieldIndex::credit_bytes)).c_str(),
                 static_cast<unsigned long long>(config_.chunk_bytes),
                 std::string(config_.origin(FieldIndex::chunk_bytes)).c_str());
  }

  const ConfigInputs& inputs_;
  Config config_;
};

// Several ranks of a process may start at once.
std::mutex& environment_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

ConfigInputs ConfigInputs::of_process(std::string_view code) {
  ConfigInputs inputs;
  inputs.code = code;
  const std::lock_guard lock(environment_mutex());
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    inputs.environment.emplace_back(*entry);
  }
  return inputs;
}

Result<Config> load_config(const ConfigInputs& inputs) { return Loader(inputs).load(); }

Result<Config> load_config(std::string_view code) {
  return load_config(ConfigInputs::of_process(code));
}

Result<PortRange> parse_port_range(std::string_view text) {
  const size_t dash = text.find('-');
  const auto low = parse_number<uint16_t>(text.substr(0, dash));
  const auto high = dash == std::string_view::npos ? low
                                                   : parse_number<uint16_t>(text.substr(dash + 1));
  // Each rank listens twice on each of its addresses, so a single port is never enough.
  const bool any = dash == std::string_view::npos && low && *low == 0;
  if (!low || !high || (!any && (*low == 0 || *low >= *high))) {
    return Status(Code::invalid_argument, "not 0 or LOW-HIGH: '" + std::string(text) + "'");
  }
  return PortRange{*low, *high};
}

Result<std::vector<double>> parse_weights(std::string_view text) {
  constexpr size_t kWeightsMax = 16;  // as many as a node may have rails
  std::vector<double> weights;
  for (bool more = !text.empty(); more;) {
    const size_t colon = text.find(':');
    const auto weight = parse_number<double>(text.substr(0, colon));
    if (!weight || !std::isfinite(*weight) || *weight < 0 || weights.size() == kWeightsMax) {
      return Status(Code::invalid_argument, "not weights such as 2:1");
    }
    weights.push_back(*weight);
    more = colon != std::string_view::npos;
    if (more) text.remove_prefix(colon + 1);
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (!weights.empty() && !(sum > 0 && std::isfinite(sum))) {
    return Status(Code::invalid_argument, "weights need a finite sum above 0");
  }
  return weights;
}

Result<double> parse_share(std::string_view text) {
  if (text == "auto") return -1.0;
  const auto share = parse_number<double>(text);
  if (share && *share >= 0 && *share <= 1) return *share;
  return Status(Code::invalid_argument, "not a share such as 0.5, nor auto");
}

Result<NodeAddress> parse_node_address(std::string_view text) {
  const Status refused(Code::invalid_argument,
                       "not a numeric address such as 10.1.0.254:7700 or [fd00::1]:7700");
  NodeAddress node;
  const bool bracket = text.starts_with('[');
  const size_t close = bracket ? text.find(']') : 0;
  if (close == std::string_view::npos) return refused;
  const bool bare_v6 = !bracket && text.find(':') != text.rfind(':');
  const size_t colon = bare_v6 ? std::string_view::npos : text.find(':', close);
  if (bracket && close + 1 != std::min(colon, text.size())) return refused;
  node.address = bracket ? text.substr(1, close - 1) : text.substr(0, colon);
  std::array<unsigned char, sizeof(in6_addr)> bytes;
  const int family = node.address.find(':') == std::string::npos ? AF_INET : AF_INET6;
  if (inet_pton(family, node.address.c_str(), bytes.data()) != 1) return refused;
  if (colon == std::string_view::npos) return node;
  const auto port = parse_number<int>(text.substr(colon + 1));
  if (!port || *port < 1 || *port > 65535) return refused;
  node.port = static_cast<uint16_t>(*port);
  return node;
}

Result<uint64_t> parse_bytes(std::string_view text) {
  int shift = 0;
  if (!text.empty()) {
    switch (text.back()) {
      case 'k': case 'K': shift = 10; break;
      case 'm': case 'M': shift = 20; break;
      case 'g': case 'G': shift = 30; break;
      default: break;
    }
  }
  const auto number = parse_number<uint64_t>(text.substr(0, text.size() - (shift != 0 ? 1 : 0)));
  if (!number || *number > (UINT64_MAX >> shift)) {
    return Status(Code::invalid_argument, "not a size such as 262144, 256K, 8M or 1G");
  }
  return *number << shift;
}

void set_environment_default(const char* name, const char* value) {
  const std::lock_guard lock(environment_mutex());
  setenv(name, value, 0);
}

}  // namespace nezha
