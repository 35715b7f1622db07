#include "engine/operation/collectives.h"

#include <algorithm>
#include <cinttypes>
#include <string>

#include "engine/group/failure_details.h"
#include "engine/operation/constants.h"
#include "engine/operation/memory_progress.h"

namespace nezha::engine {

Collectives::~Collectives() {
  for (const memory::Area* area : {plans.memory, plans.areas.collect, plans.areas.hand_out}) {
    if (area != nullptr) parts_.memory->memory().leave(*area);
  }
  parts_.pool.discharge(plans.schedule_bytes);
}

Execution* Collectives::find_active(uint64_t op_seq) const {
  const auto is_before = [](const auto& each, uint64_t seq) { return each->op_seq() < seq; };
  const auto found = std::lower_bound(active.begin(), active.end(), op_seq, is_before);
  return found != active.end() && (*found)->op_seq() == op_seq ? found->get() : nullptr;
}

void Collectives::fail(const Status& why) {
  ended_.swap(active);
  for (const auto& execution : ended_) {
    execution->withdraw();
    if (parts_.memory != nullptr) parts_.memory->forget(*execution);
  }
  for (const auto& execution : ended_) parts_.flight.complete(*execution->work(), why);
  ended_.clear();
}

std::optional<Status> Collectives::left(int member) const {
  for (const auto& execution : active) {
    if (!execution->needs(member)) continue;
    const OpenCall call = execution->call();
    Status lost = error(Code::peer_lost, "rank %d: rank %d left (closed its communicator) before "
                        "%s #%llu of %llu bytes was complete; every rank must make the same calls",
                        group_.rank, member, std::string(name_of(call.op.collective)).c_str(),
                        static_cast<unsigned long long>(call.op_seq),
                        static_cast<unsigned long long>(call.bytes));
    return lost.with_peer(member).with(details_of(group_, call, {member}));
  }
  return std::nullopt;
}

std::optional<Status> Collectives::expired(Nanoseconds now) const {
  for (const auto& execution : active) {
    if (now >= execution->deadline()) return deadline_error(*execution);
  }
  return std::nullopt;
}

Nanoseconds Collectives::next_deadline() const {
  Nanoseconds next = kNever;
  for (const auto& execution : active) next = std::min(next, execution->deadline());
  return next;
}

Status Collectives::deadline_error(const Execution& execution) const {
  std::string absent;
  std::vector<int> awaited = execution.awaited_members();
  for (const int member : awaited) {
    absent += (absent.empty() ? "" : ", ") + std::to_string(member);
  }
  const std::string waiting =
      absent.empty() ? std::string("acknowledgements") : "rank " + absent;
  const OpenCall call = execution.call();
  return error(Code::timed_out, "rank %d: %s #%llu of %llu bytes (communicator %" PRIu64 ") passed its "
               "deadline waiting for %s%s; find out what they are doing, or raise timeout_s",
               group_.rank, std::string(name_of(call.op.collective)).c_str(),
               static_cast<unsigned long long>(call.op_seq), static_cast<unsigned long long>(call.bytes),
               group_.comm, waiting.c_str(), parts_.progress.describe_ranks(group_, call.op_seq).c_str())
      .with(details_of(group_, call, std::move(awaited)));
}

void Collectives::mark_awaited(RankSet& awaited) const {
  for (const auto& execution : active) {
    if (!execution->has_started() || parts_.clock.now() - execution->started_at() < kAwaitedAfter) break;
    for (const int member : execution->awaited_members()) {
      awaited.add(group_.members[static_cast<size_t>(member)].global_rank);
    }
  }
}

std::optional<OpenCall> Collectives::oldest() const {
  return active.empty() ? std::nullopt : std::optional(active.front()->call());
}

}  // namespace nezha::engine
