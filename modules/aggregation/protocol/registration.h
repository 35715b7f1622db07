// Registration: how a communicator asks an aggregation node to serve it: messages between one of the
// node's children (a rank, or a node on behalf of those below it) and the node, on a group of these two
// that exists from the beginning.
//
// Contract: plain values; pure; any thread. `decode` checks everything that it reads.
//
//   request  kRequestTag, kRequestBytes: communicator (8), its members (4), of these nodes (4);
//            with 0 members the sender leaves that communicator, and no member list follows
//   list     kMemberListTag, 8 bytes for each member: global rank, parent in the tree (-1: root)
//   reply    kReplyTag, kReplyBytes: 1 (accepted) or 0 (4), the reason as text ending in 0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace nezha::aggregation {

// The group of child and node, which are its ranks 0 and 1.
inline constexpr uint64_t registration_comm(uint32_t child) { return uint64_t{1} + child; }
inline constexpr uint32_t kRequestTag = 1;
inline constexpr uint32_t kMemberListTag = 2;
inline constexpr uint32_t kReplyTag = 3;
inline constexpr size_t kRequestBytes = 16;
inline constexpr size_t kReplyBytes = 256;
inline constexpr size_t kMemberEntryBytes = 8;

// Both ends need the same values for their plans to agree.
inline constexpr uint64_t kAggregationChunkBytes = 256 * 1024;
inline constexpr uint64_t kAggregationCreditBytes = 4 * 1024 * 1024;

struct RegistrationRequest {
  uint64_t comm = 0;
  uint32_t members = 0;  // ranks and nodes
  uint32_t nodes = 0;

  bool leaves() const { return members == 0; }
  bool operator==(const RegistrationRequest&) const = default;
};
struct MemberList {
  std::vector<int> members;  // global ranks, nodes last
  std::vector<int> parents;

  bool operator==(const MemberList&) const = default;
};

std::string encode(const RegistrationRequest& request);
// False for what no communicator of a job of `world` ranks and nodes can be.
bool decode(std::string_view bytes, uint32_t world, RegistrationRequest* request);
std::string encode(const MemberList& list);
// The members are all different, and in the world. Whether the parents make a tree is not checked.
bool decode(std::string_view bytes, const RegistrationRequest& request, uint32_t world,
            MemberList* list);
std::string encode_reply(const Status& outcome);
// `unsupported` with the node's reason when it refused, `internal` for a malformed reply.
Status decode_reply(std::string_view bytes);

}  // namespace nezha::aggregation
