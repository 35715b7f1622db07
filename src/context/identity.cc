#include "context/identity.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "base/file.h"
#include "wire/key_file.h"

namespace nezha::context {

Result<std::optional<wire::Secret>> configured_secret(const Config& config) {
  if (config.secret.empty() && config.secret_file.empty()) return std::optional<wire::Secret>();
  auto secret = config.secret.empty() ? wire::read_key_file("secret_file", config.secret_file)
                                      : wire::key_from_text("secret", config.secret);
  if (!secret) return secret.status();
  return std::optional<wire::Secret>(*secret);
}

std::string host_identity() {
  constexpr size_t kUuidBytes = 36;
  const auto boot = read_file("/proc/sys/kernel/random/boot_id", kUuidBytes);
  std::string identity = boot ? boot.value() : "";
  struct stat network {};
  if (stat("/proc/self/ns/net", &network) == 0) identity += "/" + std::to_string(network.st_ino);
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return identity + "/" + name.data();
}

}  // namespace nezha::context
