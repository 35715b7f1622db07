#include "engine/membership/failures.h"

#include <algorithm>
#include <bit>
#include <cinttypes>

#include "base/clean_text.h"
#include "engine/group/failure_details.h"
#include "engine/operation/mismatch.h"
#include "engine/membership/missing_connections.h"
#include "engine/membership/shrink.h"
#include "engine/flow/transfers.h"

namespace nezha::engine {

void Failures::fail(Group& group, const Status& why, bool tell_others) {
  if (!group.failed.is_ok()) return;
  group.settled = false;
  group.failed = why;  // without memory for the message at least the code
  if (tell_others) tell(group);
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

void Failures::heard(Group& group, int peer, const wire::FrameHeader& header, const std::string& text) {
  const bool known = header.slot > 0 && header.slot <= static_cast<uint16_t>(Code::internal);
  const Code code = known ? static_cast<Code>(header.slot) : Code::internal;
  Status why(code, text.empty() ? "rank " + std::to_string(peer) + " failed"
                                : cleaned(text, wire::kFailureBytesMax));
  why.with_peer(static_cast<int>(header.chunk) - 1);
  why.with(read_details(header, group.members.size()));
  // Every rank tells the error again: the rank that told it may not know all ranks, and a rank that
  // hears of it may leave, which must not be what the others hear first.
  fail(group, why, !options_.serves);
}

void Failures::heard_progress(int peer, const wire::FrameHeader& header) {
  const Status differs = diagnostics_.heard(peer, header);
  if (!differs.is_ok()) fail(*groups_.find(header.comm), differs, true);
}

// ------------------------------------------------------------------------------ ranks that are gone

// Fails the parked groups that the peer sent to: they are not created any more, or only without it.
void Failures::fail_parked(int peer) {
  for (const auto& group : groups_) {
    const auto is_by_it = [&](const Group::Parked& by) { return by.peer == peer; };
    if (std::none_of(group->parked.begin(), group->parked.end(), is_by_it)) continue;
    Status lost = error(Code::peer_lost, "rank %d: rank %d left or was lost before communicator "
                        "%" PRIu64 " was created here", options_.rank, peer, group->comm);
    fail(*group, lost.with_peer(peer), false);
    group->settled = false;  // also if it had failed before: it may be an orphan now
  }
}

void Failures::lost(int peer, const Status& why, bool exited) {
  peers_.of(peer).gone = any_gone_ = true;
  peers_.of(peer).exited = exited;
  fail_parked(peer);
  for (const auto& group : groups_) {
    const int rank = group->rank_of_global[static_cast<size_t>(peer)];
    if (rank < 0) continue;
    Status lost = error(Code::peer_lost, "rank %d lost rank %d %s (communicator %" PRIu64 "): %s; "
                        "shrink() gives a communicator of the others", group->rank, rank,
                        activity_of(*group).c_str(), group->comm, why.message().c_str());
    ErrorDetails details = details_of(*group, {rank});
    const auto rail = static_cast<size_t>(why.rail);
    if (rail < options_.rail_names.size()) details.rail = options_.rail_names[rail];
    fail(*group, lost.with_peer(rank).with(std::move(details)), true);
  }
  shrinker_.lost(peer, exited);
  transfers_.drop_all(peer);
}

void Failures::left(int peer) {
  peers_.of(peer).gone = peers_.of(peer).exited = any_gone_ = true;
  fail_parked(peer);
  shrinker_.lost(peer, true);
  for (const auto& group : groups_) {
    const int rank = group->rank_of_global[static_cast<size_t>(peer)];
    if (rank < 0 || !group->failed.is_ok()) continue;
    for (const auto& execution : group->active) {
      if (!execution->needs(rank)) continue;
      Status lost = error(Code::peer_lost, "rank %d: rank %d left (closed its communicator) before "
                          "%s #%llu of %llu bytes was complete; every rank must make the same calls",
                          group->rank, rank,
                          std::string(name_of(execution->descriptor().collective)).c_str(),
                          static_cast<unsigned long long>(execution->op_seq()),
                          static_cast<unsigned long long>(execution->bytes()));
      lost.with_peer(rank).with(details_of(*group, execution.get(), {rank}));
      fail(*group, lost, true);
      break;
    }
    if (group->failed.is_ok() && group->mailbox->needs(rank)) {
      Status lost = error(Code::peer_lost, "rank %d: rank %d left (closed its communicator) before a "
                          "message with it was complete", group->rank, rank);
      fail(*group, lost.with_peer(rank).with(details_of(*group, nullptr, {rank})), true);
    }
  }
  transfers_.drop_all(peer);
}

// That a rank left while no operation needed it was no error; now it is one.
void Failures::check_presence(Group& group, const OpRequest& request) {
  if (!any_gone_) return;
  for (size_t rank = 0; rank < group.members.size(); ++rank) {
    const auto& links = peers_.all()[static_cast<size_t>(group.members[rank].global_rank)];
    if (links == nullptr || !links->gone) continue;
    Status lost = error(Code::peer_lost, "rank %d: rank %zu left (closed its communicator) before "
                        "%s #%llu began; every rank must make the same calls", group.rank, rank,
                        std::string(name_of(request.collective)).c_str(),
                        static_cast<unsigned long long>(group.next_op_seq));
    ErrorDetails details = details_of(group, nullptr, {static_cast<int>(rank)});
    details.operation = name_of(request.collective);
    details.number = static_cast<int64_t>(group.next_op_seq);
    lost.with(std::move(details)).with_peer(static_cast<int>(rank));
    return fail(group, lost, true);
  }
}

// --------------------------------------------------------------------- ranks that differ, or are late

bool Failures::check_descriptor(Group& group, uint64_t op_seq, const wire::OpDescriptor& ours,
                                int global_rank, const wire::OpDescriptor& theirs) {
  if (ours == theirs) return true;
  const int member = group.rank_of_global[static_cast<size_t>(global_rank)];
  fail(group, describe_mismatch(group.comm, op_seq, {group.rank, ours}, {member, theirs}), true);
  return false;
}

void Failures::disagree(Group& group, const Execution& execution, int member,
                        const std::optional<wire::OpDescriptor>& theirs) {
  const int peer = group.members[static_cast<size_t>(member)].global_rank;
  const bool is_told =
      theirs && !check_descriptor(group, execution.op_seq(), execution.descriptor(), peer, *theirs);
  if (is_told) return;
  Status broken = error(Code::internal, "rank %d: rank %d broke the protocol in the memory of this host, "
                        "%s (communicator %" PRIu64 ")", group.rank, member, activity_of(group).c_str(),
                        group.comm);
  fail(group, broken.with_peer(member).with(details_of(group, &execution, {member})), true);
}

void Failures::check_deadlines(Nanoseconds now) {
  next_deadline_ = kNever;
  for (const auto& group : groups_) {
    for (const auto& execution : group->active) {
      if (now >= execution->deadline()) {
        fail(*group, deadline_error(*group, *execution), true);
        break;
      }
      expect_by(execution->deadline());
    }
    if (const auto late = group->mailbox->expired(now)) fail(*group, *late, true);
    expect_by(group->mailbox->next_deadline());
  }
}

Status Failures::deadline_error(const Group& group, const Execution& execution) const {
  std::string absent;
  std::vector<int> awaited = execution.awaited_members();
  for (const int member : awaited) {
    absent += (absent.empty() ? "" : ", ") + std::to_string(member);
  }
  const std::string waiting =
      absent.empty() ? std::string("acknowledgements") : "rank " + absent;
  return error(Code::timed_out, "rank %d: %s #%llu of %llu bytes (communicator %" PRIu64 ") passed its "
               "deadline waiting for %s%s; find out what they are doing, or raise timeout_s",
               group.rank, std::string(name_of(execution.descriptor().collective)).c_str(),
               static_cast<unsigned long long>(execution.op_seq()),
               static_cast<unsigned long long>(execution.bytes()), group.comm, waiting.c_str(),
               diagnostics_.describe_ranks(group, execution.op_seq()).c_str())
      .with(details_of(group, &execution, std::move(awaited)));
}

// --------------------------------------------------------------------------------- telling

void Failures::tell(const Group& group) {
  const size_t size = group.members.size();
  for (size_t rank = 0; rank < size; ++rank) {
    if (static_cast<int>(rank) == group.rank) continue;
    PeerLinks& links = peers_.of(group.members[rank].global_rank);
    tell(group.comm, group.failed, links);
    // Connections between ranks at distances that are powers of two keep the survivors connected,
    // with few connections per rank.
    const size_t distance = (rank + size - static_cast<size_t>(group.rank)) % size;
    const bool is_near = std::has_single_bit(distance) || std::has_single_bit(size - distance);
    if (options_.on_demand && is_near) missing_.need(links);
  }
}

// The failure goes out on every connection: the goodbye that may follow does, too, and the peer may
// not have all of them yet.
void Failures::tell(uint64_t comm, const Status& why, PeerLinks& links) {
  wire::FrameHeader header;
  header.type = wire::FrameType::failure;
  header.comm = comm;
  header.slot = static_cast<uint16_t>(why.code());
  header.chunk = static_cast<uint32_t>(why.peer + 1);
  write_details(why, header);
  for (const Link& link : links.links()) {
    if (!link.is_up()) continue;
    link.connection->post_control(header, why.message());
    link.connection->flush();
  }
}

void Failures::tell_again(PeerLinks& links) {
  for (const auto& group : groups_) {
    if (group->rank_of_global[static_cast<size_t>(links.peer())] < 0) continue;
    if (!group->failed.is_ok()) {
      tell(group->comm, group->failed, links);
    } else if (transport::Connection* connection = links.any_up()) {
      connection->acknowledge(group->comm);
    }
  }
  for (const Untold& untold : untold_) {
    const auto& ranks = untold.global_ranks;
    if (std::find(ranks.begin(), ranks.end(), links.peer()) != ranks.end()) {
      tell(untold.comm, untold.why, links);
    }
  }
  shrinker_.tell_again(links);
}

void Failures::keep_untold(const Group& group) {
  if (!missing_.is_connecting()) return untold_.clear();
  if (group.failed.is_ok()) return;
  Untold& untold = untold_.emplace_back(Untold{group.comm, group.failed, {}});
  for (const Member& member : group.members) untold.global_ranks.push_back(member.global_rank);
}

}  // namespace nezha::engine
