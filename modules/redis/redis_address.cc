#include "redis/redis_address.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace nezha::rendezvous {
namespace {

constexpr uint16_t kRedisPort = 6379;
constexpr int kRedisDatabaseMax = 65535;
constexpr uint32_t kTimeToLiveMax = 30 * 24 * 3600;

// "%40" is '@': user names and passwords may hold the characters that end them.
std::optional<HiddenText> percent_decoded(std::string_view text) {
  constexpr size_t kNotInPlace = 16;
  HiddenText decoded;
  decoded.reserve(std::max(text.size(), kNotInPlace));
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    unsigned byte = 0;
    if (text.size() - i < 3) return std::nullopt;
    const char* digits = text.data() + i + 1;
    const auto read = std::from_chars(digits, digits + 2, byte, 16);
    if (read.ec != std::errc() || read.ptr != digits + 2) return std::nullopt;
    decoded += static_cast<char>(byte);
    i += 2;
  }
  return decoded;
}

// Takes "USER:PASSWORD@" from the front of `rest`.
Status take_credentials(std::string_view text, std::string_view& rest, RedisAddress& address) {
  const size_t at = rest.substr(0, rest.find('?')).rfind('@');
  if (at == std::string_view::npos) return Status::ok();
  const std::string_view credentials = rest.substr(0, at);
  const size_t colon = credentials.find(':');
  if (colon == std::string_view::npos) {
    return refuse_address(text, "credentials are USER:PASSWORD or :PASSWORD");
  }
  const auto user = percent_decoded(credentials.substr(0, colon));
  auto password = percent_decoded(credentials.substr(colon + 1));
  if (!user || !password) return refuse_address(text, "'%' in the credentials needs two hex digits");
  if (!user->empty() && password->empty()) return refuse_address(text, "the user has no password");
  address.user = *user;
  address.password = std::move(*password);
  rest.remove_prefix(at + 1);
  return Status::ok();
}

Status parse_option(std::string_view text, std::string_view option, RedisAddress& address) {
  const size_t equals = option.find('=');
  const std::string name(option.substr(0, equals));
  const auto value =
      percent_decoded(equals == std::string_view::npos ? "" : option.substr(equals + 1));
  if (!value || value->empty()) return refuse_address(text, "'" + name + "' after '?' needs =VALUE");
  if (name == "ttl") {
    const auto seconds = number_in<uint32_t>(*value, 1, kTimeToLiveMax);
    if (!seconds) return refuse_address(text, "ttl is 1 to 2592000 seconds");
    address.ttl_s = *seconds;
  } else if (name == "db") {
    const auto database = number_in<int>(*value, 0, kRedisDatabaseMax);
    if (!database) return refuse_address(text, "db must be a number");
    address.database = *database;
  } else if (name == "prefix") {
    address.prefix = *value;
  } else if (name == "insecure") {
    if (*value != "0" && *value != "1") return refuse_address(text, "insecure is 0 or 1");
    address.tls_options.insecure = *value == "1";
  } else if (name == "ca") {
    address.tls_options.ca = *value;
  } else if (name == "cert") {
    address.tls_options.certificate = *value;
  } else if (name == "key") {
    address.tls_options.key = *value;
  } else {
    return refuse_address(text, "unknown option '" + name.substr(0, 32) +
                                    "'; there are ca, cert, key, insecure, ttl, prefix and db");
  }
  if (!address.tls && (name == "ca" || name == "cert" || name == "key" || name == "insecure")) {
    return refuse_address(text, "'" + name + "' is for TLS, which is rediss://");
  }
  return Status::ok();
}

Status parse_options(std::string_view text, std::string_view query, RedisAddress& address) {
  while (!query.empty()) {
    const size_t end = query.find('&');
    NEZHA_RETURN_IF_ERROR(parse_option(text, query.substr(0, end), address));
    query.remove_prefix(end == std::string_view::npos ? query.size() : end + 1);
  }
  const TlsOptions& tls = address.tls_options;
  if (tls.certificate.empty() != tls.key.empty()) {
    return refuse_address(text, "cert and key belong together");
  }
  if (tls.insecure && !tls.ca.empty()) return refuse_address(text, "insecure=1 would ignore ca");
  return Status::ok();
}

// "[USER:PASSWORD@]HOST[:PORT][/DB][?OPTIONS]", or with `unix_socket` "[USER:PASSWORD@]/PATH[?OPTIONS]"
Status parse_rest(std::string_view text, std::string_view rest, bool unix_socket,
                  RedisAddress& address) {
  NEZHA_RETURN_IF_ERROR(take_credentials(text, rest, address));
  if (const size_t question = rest.find('?'); question != std::string_view::npos) {
    NEZHA_RETURN_IF_ERROR(parse_options(text, rest.substr(question + 1), address));
    rest = rest.substr(0, question);
  }
  if (unix_socket) {
    const auto path = percent_decoded(rest);
    if (!path || !path->starts_with('/') || path->find('\0') != std::string::npos) {
      return refuse_address(text, "the socket's path must be absolute: redis+unix:///...");
    }
    address.path = *path;
    return Status::ok();
  }
  const size_t slash = rest.find('/');
  if (slash != std::string_view::npos && slash + 1 < rest.size()) {
    const auto database = number_in<int>(rest.substr(slash + 1), 0, kRedisDatabaseMax);
    if (!database) return refuse_address(text, "the database after '/' must be a number");
    address.database = *database;
  }
  return split_host(text, rest.substr(0, slash), 1, kRedisPort, address);
}

}  // namespace

Result<RedisAddress> parse_redis_address(std::string_view text) {
  const size_t separator = text.find("://");
  const std::string_view scheme = text.substr(0, separator);
  RedisAddress address;
  address.kind = StoreKind::redis;
  address.tls = scheme == "rediss";
  NEZHA_RETURN_IF_ERROR(parse_rest(text, text.substr(separator + 3), scheme == "redis+unix", address));
  return address;
}

}  // namespace nezha::rendezvous
