// Context: the algorithm that the user brings as data. Nothing is sent before it is proved.
#include <cstdio>

#include "base/file.h"
#include "base/module.h"
#include "context/context.h"
#include "schedule/algorithm_reader.h"
#include "wire/crc32c.h"

namespace nezha::context {
namespace {

Result<schedule::FileAlgorithm> read_algorithm(std::string_view text) {
  auto reader = open_module("proof", schedule::AlgorithmReader::kInterface);
  if (!reader) return reader.status();
  return static_cast<const schedule::AlgorithmReader*>(*reader)->read(text);
}

}  // namespace

Status Context::load_algorithm() {
  if (config_.algorithm_file.empty()) return Status::ok();
  const std::string path = expand_path(config_.algorithm_file, rank_);
  auto text = read_input_file(path, schedule::kScheduleTextBytesMax + 1);
  if (!text) return text.status();
  auto algorithm = read_algorithm(*text);
  if (!algorithm) {
    return error(algorithm.status().code(), "rank %d: algorithm_file %s: %s", rank_, path.c_str(),
                 algorithm.status().message().c_str());
  }
  const int ranks = algorithm->ranks.front().world_size;
  if (ranks != world_size_) {
    return error(Code::invalid_argument, "rank %d: algorithm_file %s: it is for %d ranks, and the job "
                 "has %d", rank_, path.c_str(), ranks, world_size_);
  }
  file_algorithm_ = std::make_shared<const schedule::FileAlgorithm>(std::move(*algorithm));
  char digest[16];
  std::snprintf(digest, sizeof digest, "%08x", wire::crc32c(std::as_bytes(std::span(*text))));
  algorithm_digest_ = digest;
  return Status::ok();
}

}  // namespace nezha::context
