#include "wire/cluster_key.h"

#include "base/file.h"

namespace nezha::wire {

Result<Secret> read_cluster_key(const std::string& path) {
  if (path.empty()) return Secret{};
  const auto text = read_file(path, kClusterKeyBytesMax + 1);
  if (!text) return text.status();
  const size_t size = text.value().find_last_not_of("\r\n") + 1;  // npos + 1 is 0
  if (size < kClusterKeyBytesMin || text.value().size() > kClusterKeyBytesMax) {
    return error(Code::invalid_argument, "the aggregation nodes' key file %s has %zu bytes: want %zu to "
                 "%zu; make one with `openssl rand -hex 32`", path.c_str(), size, kClusterKeyBytesMin,
                 kClusterKeyBytesMax);
  }
  return secret_from_text(text.value());
}

}  // namespace nezha::wire
