#include "engine/group/failures.h"

#include <algorithm>
#include <bit>
#include <cinttypes>

#include "base/clean_text.h"
#include "engine/group/failure_details.h"

namespace nezha::engine {

void Failures::fail(Group& group, const Status& why, bool tell_others) {
  if (!group.failed.is_ok()) return;
  agenda_.settle(group);
  group.failed = why;  // without memory for the message at least the code
  if (tell_others) tell_members(group);
}

void Failures::fail_exhausted(Group& group, size_t bytes) {
  if (pool_.is_over_limit()) {
    const unsigned long long limit = pool_.limit() >> 20;
    return fail(group, error(Code::exhausted, "rank %d: its peers make it hold more than the %llu MiB "
                             "that it may (communicator %" PRIu64
                             ")", options_.rank, limit, group.comm), true);
  }
  fail(group, error(Code::exhausted, "rank %d: no memory for a buffer of %zu bytes; lower credit_bytes "
                    "or chunk_bytes", options_.rank, bytes), true);
}

void Failures::on_failure(Group& group, int peer, const wire::FailureHeader& header,
                          const std::string& text) {
  Status why(header.code, text.empty() ? "rank " + std::to_string(peer) + " failed"
                                       : cleaned(text, wire::kFailureBytesMax));
  why.with_peer(header.peer);
  why.with(read_details(header, group.members.size()));
  // Every rank tells the error again: the rank that told it may not know all ranks, and a rank that
  // hears of it may leave, which must not be what the others hear first.
  fail(group, why, !options_.serves);
}

void Failures::check_deadlines(Nanoseconds now) {
  next_deadline_ = kNever;
  for (const auto& group : groups_) {
    for (const GroupWork* const work : group->works()) {
      if (const auto late = work->expired(now)) {
        fail(*group, *late, true);
      } else {
        expect_by(work->next_deadline());
      }
    }
  }
}

// --------------------------------------------------------------------------------- telling

void Failures::tell_members(const Group& group) {
  const size_t size = group.members.size();
  for (size_t rank = 0; rank < size; ++rank) {
    if (static_cast<int>(rank) == group.rank) continue;
    PeerLinks& links = peers_.of(group.members[rank].global_rank);
    send_failure(group.comm, group.failed, links);
    // Connections between ranks at distances that are powers of two keep the survivors connected,
    // with few connections per rank.
    const size_t distance = (rank + size - static_cast<size_t>(group.rank)) % size;
    const bool is_near = std::has_single_bit(distance) || std::has_single_bit(size - distance);
    if (options_.on_demand && is_near) agenda_.connect(links.peer());
  }
}

// The failure goes out on every connection: the goodbye that may follow does, too, and the peer may
// not have all of them yet.
void Failures::send_failure(uint64_t comm, const Status& why, PeerLinks& links) {
  wire::FailureHeader header{.comm = comm, .code = why.code(), .peer = why.peer};
  write_details(why, header);
  for (const Link& link : links.links()) {
    if (!link.is_up()) continue;
    link.connection->post_control(header.to_frame(), why.message());
    link.connection->flush();
  }
}

void Failures::tell_again(PeerLinks& links) {
  for (const auto& group : groups_) {
    if (group->rank_of_global[static_cast<size_t>(links.peer())] < 0) continue;
    if (!group->failed.is_ok()) {
      send_failure(group->comm, group->failed, links);
    } else if (transport::Connection* connection = links.any_up()) {
      connection->acknowledge(group->comm);
    }
  }
  for (const Untold& untold : untold_) {
    const auto& ranks = untold.global_ranks;
    if (std::find(ranks.begin(), ranks.end(), links.peer()) != ranks.end()) {
      send_failure(untold.comm, untold.why, links);
    }
  }
}

void Failures::keep_untold(const Group& group) {
  if (group.failed.is_ok()) return;
  Untold& untold = untold_.emplace_back(Untold{group.comm, group.failed, {}});
  for (const Member& member : group.members) untold.global_ranks.push_back(member.global_rank);
}

}  // namespace nezha::engine
