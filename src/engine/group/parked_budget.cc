#include "engine/group/parked_budget.h"

#include <algorithm>

#include "base/log.h"

namespace nezha::engine {
namespace {

// A group has so many bytes for each rank of the job: Group::early_cost and rank_of_global, and
// PeerRecords twice.
constexpr uint64_t kBytesOfRank = 2 * sizeof(uint64_t) + sizeof(int) + sizeof(void*);

}  // namespace

ParkedBudget::ParkedBudget(const EngineOptions& options, uint64_t bytes_of_group)
    : max_(kParkedCredits * std::max(options.credit_bytes, options.chunk_bytes)),
      bytes_of_group_(std::max(bytes_of_group + static_cast<uint64_t>(options.world_size) * kBytesOfRank,
                               max_ / kParkedGroupsMax)),
      used_(static_cast<size_t>(options.world_size)) {}

bool ParkedBudget::charge(Group& group, int peer, uint64_t bytes) {
  uint64_t& used = used_[static_cast<size_t>(peer)];
  if (bytes > max_ || used > max_ - bytes) {
    NEZHA_LOG(warn, "engine", "rank %d makes this rank hold %llu bytes for communicators that this rank "
              "has not created yet, and may no more than %llu: its connection is closed and made "
              "again; create communicators in the same order on all ranks", peer,
              static_cast<unsigned long long>(used), static_cast<unsigned long long>(max_));
    return false;
  }
  const auto of_peer = std::find_if(group.parked.begin(), group.parked.end(),
                                    [&](const Group::Parked& entry) { return entry.peer == peer; });
  if (of_peer == group.parked.end()) {
    group.parked.push_back({peer, bytes, group.parked.empty() ? bytes : 0});
  } else {
    of_peer->bytes += bytes;
  }
  used += bytes;
  return true;
}

void ParkedBudget::give(Group& group, int peer, uint64_t bytes) {
  for (Group::Parked& entry : group.parked) {
    if (entry.peer != peer) continue;
    entry.bytes -= bytes;
    used_[static_cast<size_t>(peer)] -= bytes;
  }
}

void ParkedBudget::give_all(Group& group) {
  for (const Group::Parked& entry : group.parked) used_[static_cast<size_t>(entry.peer)] -= entry.bytes;
  group.parked.clear();
}

void ParkedBudget::give_frames(Group& group) {
  for (Group::Parked& entry : group.parked) {
    used_[static_cast<size_t>(entry.peer)] -= entry.bytes - entry.opening;
    entry.bytes = entry.opening;
  }
}

}  // namespace nezha::engine
