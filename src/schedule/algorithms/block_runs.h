// Runs of blocks as messages, for algorithms in which part b is the block of rank b.
//
// Contract: pure, any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/builder.h"
#include "schedule/catalog.h"

namespace nezha::schedule::algorithms {

// The blocks of the `count` ranks from `first` on: one range, or two where they go round the end.
// Message i of them has slot i.
inline std::vector<Parts> block_run(int first, int count, int world_size) {
  const auto begin = static_cast<uint32_t>(first);
  const auto end = static_cast<uint32_t>(first + count);
  const auto world = static_cast<uint32_t>(world_size);
  if (end <= world) return {{begin, end}};
  return {{begin, world}, {0, end - world}};
}

inline void send_run(Builder& builder, int peer, int stage, const std::vector<Parts>& run) {
  for (size_t i = 0; i < run.size(); ++i) builder.send(peer, run[i], {stage, static_cast<int>(i)});
}

inline void recv_run(Builder& builder, int peer, int stage, const std::vector<Parts>& run) {
  for (size_t i = 0; i < run.size(); ++i) builder.recv(peer, run[i], {stage, static_cast<int>(i)});
}

// Adds parts behind those of `runs`, to the last run where they follow it.
inline void add_run(std::vector<Parts>& runs, Parts parts) {
  if (!runs.empty() && runs.back().end == parts.begin) {
    runs.back().end = parts.end;
  } else {
    runs.push_back(parts);
  }
}

// The block of one rank.
inline Parts block_part(int rank) {
  return {static_cast<uint32_t>(rank), static_cast<uint32_t>(rank) + 1};
}

}  // namespace nezha::schedule::algorithms
