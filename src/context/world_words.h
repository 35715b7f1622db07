// WorldWords: what rank 0 says of a job in the store's key "world": "4 8 <nonce> <mark> 17".
//
// Contract: pure; any thread. The words may come from anybody who can write into the store.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "wire/handshake.h"

namespace nezha::context {

struct WorldWords {
  std::string size;
  uint64_t version = 0;
  std::string nonce;
  std::string mark;
};

// The rank that writes or reads the words.
struct WorldMember {
  int rank = 0;
  int world_size = 1;
  const wire::Secret* secret = nullptr;  // null: none is configured
};

std::string world_words(const WorldMember& me, const std::string& nonce);
WorldWords parse_world(std::string_view text);
// Ok if this rank fits into the job that `world` announces. `store`: its name, for the error.
Status check_world(std::string_view world, const WorldMember& me, const std::string& store);

}  // namespace nezha::context
