// Enlistment: how a communicator asks an aggregation node to add up for it: messages between one of the
// hub's children (a rank, or a hub on behalf of those below it) and the hub, on a group that these two
// have from the beginning.
//
// Contract: plain values; pure; any thread. `decode` believes nothing.
//
//   order   kOrderTag, kOrderBytes: communicator (4), its members (4), of these hubs (4), 0 (4); without
//           members: the sender takes no part in that communicator any more, and no roll follows
//   roll    kRollTag, 8 bytes for each member: global rank, parent in the tree (-1: root)
//   answer  kAnswerTag, kAnswerBytes: 1 (accepted) or 0 (4), why not, as text ending in 0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace nezha::wire {

// The communicator of child and hub, which are its ranks 0 and 1.
inline constexpr uint32_t desk_comm(uint32_t child) { return 1 + child; }
inline constexpr uint32_t kOrderTag = 1;
inline constexpr uint32_t kRollTag = 2;
inline constexpr uint32_t kAnswerTag = 3;
inline constexpr size_t kOrderBytes = 16;
inline constexpr size_t kAnswerBytes = 256;
inline constexpr size_t kRollEntryBytes = 8;

// What both ends must have in common for their plans to agree.
inline constexpr uint64_t kHubChunkBytes = 256 * 1024;
inline constexpr uint64_t kHubCreditBytes = 4 * 1024 * 1024;

struct Order {
  uint32_t comm = 0;
  uint32_t members = 0;  // ranks and hubs
  uint32_t hubs = 0;

  bool leaves() const { return members == 0; }
  bool operator==(const Order&) const = default;
};
struct Roll {
  std::vector<int> members;  // global ranks, hubs last
  std::vector<int> parents;

  bool operator==(const Roll&) const = default;
};

std::string encode(const Order& order);
// False when no communicator of a job of `world` ranks and hubs can be like that.
bool decode(std::string_view bytes, uint32_t world, Order* order);
std::string encode(const Roll& roll);
// The members are all different, and in the world; whether the parents make a tree is not looked at.
bool decode(std::string_view bytes, const Order& order, uint32_t world, Roll* roll);
std::string encode_answer(const Status& outcome);
// `unsupported` with the node's words when it refused, `internal` when that is no answer.
Status decode_answer(std::string_view bytes);

}  // namespace nezha::wire
