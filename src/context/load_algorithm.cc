// Context: the algorithm that the user brings as data. Nothing is sent before it is proved.
#include <cstdio>

#include "base/file.h"
#include "context/context.h"
#include "schedule/parser.h"
#include "schedule/proof/algorithm_file.h"
#include "wire/crc32c.h"

namespace nezha::context {

Status Context::load_algorithm() {
  if (config_.algorithm_file.empty()) return Status::ok();
  const std::string path = expand_path(config_.algorithm_file, rank_);
  auto text = read_input_file(path, schedule::kScheduleTextBytesMax + 1);
  if (!text) return text.status();
  auto proved = schedule::prove_algorithm(*text);
  if (!proved) {
    return error(proved.status().code(), "rank %d: algorithm_file %s: %s", rank_, path.c_str(),
                 proved.status().message().c_str());
  }
  const int ranks = proved->algorithm.ranks.front().world_size;
  if (ranks != world_size_) {
    return error(Code::invalid_argument, "rank %d: algorithm_file %s: it is for %d ranks, and the job "
                 "has %d", rank_, path.c_str(), ranks, world_size_);
  }
  file_algorithm_ = std::make_shared<const schedule::FileAlgorithm>(std::move(proved->algorithm));
  char digest[16];
  std::snprintf(digest, sizeof digest, "%08x", wire::crc32c(std::as_bytes(std::span(*text))));
  algorithm_digest_ = digest;
  return Status::ok();
}

}  // namespace nezha::context
