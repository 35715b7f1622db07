#include "rendezvous/address.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace nezha::rendezvous {
namespace {

constexpr size_t kAddressBytesMax = 4096;
constexpr size_t kHostBytesMax = 255;
constexpr uint16_t kRedisPort = 6379;
constexpr int kRedisDatabaseMax = 65535;
constexpr uint32_t kTimeToLiveMax = 30 * 24 * 3600;

Status refuse(std::string_view text, const std::string& why) {
  return {Code::invalid_argument,
          "store address '" + without_secrets(text) + "': " + why +
              "; use tcp://HOST:PORT, file:///DIRECTORY, redis[s]://[USER:PASSWORD@]HOST[:PORT]"
              "[/DB], redis+unix://[USER:PASSWORD@]/SOCKET or hash://NAME"};
}

template <class Number>
std::optional<Number> number_in(std::string_view text, Number low, Number high) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end || number < low || number > high) {
    return std::nullopt;
  }
  return number;
}

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

// Splits "HOST:PORT" or "[V6]:PORT" into the address; `default_port` 0 means the port is required.
Status split_host(std::string_view text, std::string_view authority, uint16_t low_port,
                  uint16_t default_port, StoreAddress& address) {
  std::string_view port;
  bool has_port = false;
  if (authority.starts_with('[')) {
    const size_t close = authority.find(']');
    if (close == std::string_view::npos) return refuse(text, "']' is missing");
    address.host = authority.substr(1, close - 1);
    const std::string_view rest = authority.substr(close + 1);
    if (!rest.empty() && rest.front() != ':') return refuse(text, "':PORT' must follow ']'");
    has_port = !rest.empty();
    if (has_port) port = rest.substr(1);
    if (address.host.find(':') == std::string::npos) {
      return refuse(text, "'[...]' holds no IPv6 address");
    }
  } else {
    const size_t colon = authority.find(':');
    if (colon != authority.rfind(':')) {
      return refuse(text, "an IPv6 address needs brackets, as in tcp://[::1]:29500");
    }
    address.host = authority.substr(0, colon);
    has_port = colon != std::string_view::npos;
    if (has_port) port = authority.substr(colon + 1);
  }
  if (address.host.empty()) return refuse(text, "the host is missing");
  if (address.host.size() > kHostBytesMax) return refuse(text, "the host is too long");
  if (!has_port) {
    if (default_port == 0) return refuse(text, "the port is missing");
    address.port = default_port;
    return Status::ok();
  }
  const auto number = number_in<uint16_t>(port, low_port, 65535);
  if (!number) {
    return refuse(text, "the port must be from 1 to 65535 (0 only for the rank that serves)");
  }
  address.port = *number;
  return Status::ok();
}

// Takes "USER:PASSWORD@" from the front of `rest`.
Status take_credentials(std::string_view text, std::string_view& rest, RedisOptions& redis) {
  const size_t at = rest.substr(0, rest.find('?')).rfind('@');
  if (at == std::string_view::npos) return Status::ok();
  const std::string_view credentials = rest.substr(0, at);
  const size_t colon = credentials.find(':');
  if (colon == std::string_view::npos) {
    return refuse(text, "credentials are USER:PASSWORD or :PASSWORD");
  }
  const auto user = percent_decoded(credentials.substr(0, colon));
  auto password = percent_decoded(credentials.substr(colon + 1));
  if (!user || !password) return refuse(text, "'%' in the credentials needs two hex digits");
  if (!user->empty() && password->empty()) return refuse(text, "the user has no password");
  redis.user = *user;
  redis.password = std::move(*password);
  rest.remove_prefix(at + 1);
  return Status::ok();
}

Status parse_option(std::string_view text, std::string_view option, StoreAddress& address) {
  const size_t equals = option.find('=');
  const std::string name(option.substr(0, equals));
  const auto value =
      percent_decoded(equals == std::string_view::npos ? "" : option.substr(equals + 1));
  if (!value || value->empty()) return refuse(text, "'" + name + "' after '?' needs =VALUE");
  RedisOptions& redis = address.redis;
  if (name == "ttl") {
    const auto seconds = number_in<uint32_t>(*value, 1, kTimeToLiveMax);
    if (!seconds) return refuse(text, "ttl is 1 to 2592000 seconds");
    redis.ttl_s = *seconds;
  } else if (name == "db") {
    const auto database = number_in<int>(*value, 0, kRedisDatabaseMax);
    if (!database) return refuse(text, "db must be a number");
    redis.database = *database;
  } else if (name == "prefix") {
    address.prefix = *value;
  } else if (name == "insecure") {
    if (*value != "0" && *value != "1") return refuse(text, "insecure is 0 or 1");
    redis.tls_options.insecure = *value == "1";
  } else if (name == "ca") {
    redis.tls_options.ca = *value;
  } else if (name == "cert") {
    redis.tls_options.certificate = *value;
  } else if (name == "key") {
    redis.tls_options.key = *value;
  } else {
    return refuse(text, "unknown option '" + name.substr(0, 32) +
                            "'; there are ca, cert, key, insecure, ttl, prefix and db");
  }
  if (!redis.tls && (name == "ca" || name == "cert" || name == "key" || name == "insecure")) {
    return refuse(text, "'" + name + "' is for TLS, which is rediss://");
  }
  return Status::ok();
}

Status parse_options(std::string_view text, std::string_view query, StoreAddress& address) {
  while (!query.empty()) {
    const size_t end = query.find('&');
    NEZHA_RETURN_IF_ERROR(parse_option(text, query.substr(0, end), address));
    query.remove_prefix(end == std::string_view::npos ? query.size() : end + 1);
  }
  const TlsOptions& tls = address.redis.tls_options;
  if (tls.certificate.empty() != tls.key.empty()) {
    return refuse(text, "cert and key belong together");
  }
  if (tls.insecure && !tls.ca.empty()) return refuse(text, "insecure=1 would ignore ca");
  return Status::ok();
}

// "[USER:PASSWORD@]HOST[:PORT][/DB][?OPTIONS]", or with `unix_socket` "[USER:PASSWORD@]/PATH[?OPTIONS]"
Status parse_redis(std::string_view text, std::string_view rest, bool unix_socket,
                   StoreAddress& address) {
  NEZHA_RETURN_IF_ERROR(take_credentials(text, rest, address.redis));
  if (const size_t question = rest.find('?'); question != std::string_view::npos) {
    NEZHA_RETURN_IF_ERROR(parse_options(text, rest.substr(question + 1), address));
    rest = rest.substr(0, question);
  }
  if (unix_socket) {
    const auto path = percent_decoded(rest);
    if (!path || !path->starts_with('/') || path->find('\0') != std::string::npos) {
      return refuse(text, "the socket's path must be absolute: redis+unix:///...");
    }
    address.path = *path;
    return Status::ok();
  }
  const size_t slash = rest.find('/');
  if (slash != std::string_view::npos && slash + 1 < rest.size()) {
    const auto database = number_in<int>(rest.substr(slash + 1), 0, kRedisDatabaseMax);
    if (!database) return refuse(text, "the database after '/' must be a number");
    address.redis.database = *database;
  }
  return split_host(text, rest.substr(0, slash), 1, kRedisPort, address);
}

}  // namespace

// Whatever stands between "//" and '@' may be a password.
std::string without_secrets(std::string_view text) {
  const size_t at = text.rfind('@');
  const size_t slashes = text.find("//");
  std::string shown;
  if (at == std::string_view::npos) {
    shown = text;
  } else {
    if (slashes != std::string_view::npos && slashes < at) shown = text.substr(0, slashes + 2);
    shown += "***" + std::string(text.substr(at));
  }
  return shown.substr(0, 300);
}

std::string host_and_port(std::string_view host, uint16_t port) {
  const bool brackets = host.find(':') != std::string_view::npos;
  return (brackets ? "[" + std::string(host) + "]" : std::string(host)) + ":" +
         std::to_string(port);
}

Result<StoreAddress> parse_store_address(std::string_view text, bool serve) {
  const bool printable = std::all_of(text.begin(), text.end(), [](char letter) {
    return static_cast<unsigned char>(letter) > 0x20 && letter != 0x7F;
  });
  if (text.size() > kAddressBytesMax) return refuse("", "longer than 4096 bytes");
  if (!printable) return refuse("", "a space or control character in it");
  const size_t separator = text.find("://");
  if (separator == std::string_view::npos) return refuse(text, "'://' is missing");
  const std::string_view scheme = text.substr(0, separator);
  const std::string_view rest = text.substr(separator + 3);
  StoreAddress address;
  if (scheme == "tcp") {
    address.kind = StoreKind::tcp;
    NEZHA_RETURN_IF_ERROR(split_host(text, rest, serve ? 0 : 1, 0, address));
  } else if (scheme == "redis" || scheme == "rediss" || scheme == "redis+unix") {
    address.kind = StoreKind::redis;
    address.redis.tls = scheme == "rediss";
    NEZHA_RETURN_IF_ERROR(parse_redis(text, rest, scheme == "redis+unix", address));
  } else if (scheme == "file") {
    address.kind = StoreKind::file;
    if (!rest.starts_with('/')) return refuse(text, "the directory must be absolute: file:///...");
    address.path = rest;
  } else if (scheme == "hash") {
    address.kind = StoreKind::hash;
    if (rest.empty()) return refuse(text, "the name is missing");
    address.path = rest;
  } else {
    return refuse(text, "unknown kind '" + std::string(scheme.substr(0, 32)) + "'");
  }
  return address;
}

}  // namespace nezha::rendezvous
