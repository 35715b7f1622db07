#include "engine/engine.h"

#include <algorithm>
#include <cinttypes>
#include <new>

namespace nezha::engine {

Engine::Engine(progress::Loop& loop, EngineOptions options)
    : parts_(loop.clock(), std::move(options)), loop_(loop) {}

Engine::~Engine() {
  parts_.supervisor.stop();
  while (!parts_.groups.empty()) destroy_group(parts_.groups.newest());
  parts_.peers.clear();
  parts_.transfers.end();
}

Status Engine::share_memory(memory::Host host) {
  auto made = MemoryProgress::create(loop_, parts_.operations, std::move(host));
  if (!made) return made.status();
  memory_ = std::move(*made);
  parts_.operations.set_memory(memory_.get());
  return Status::ok();
}

// ---------------------------------------------------------------------------------- groups

std::optional<wire::OpDescriptor> Engine::next_call(const Group& group) const {
  if (!group.failed.is_ok()) return std::nullopt;
  const EarlyFrame* const first =
      group.early.find(group.next_op_seq, [](const EarlyFrame&) { return true; });
  return first == nullptr ? std::nullopt : std::optional(first->header.op);
}

void Engine::destroy_group(Group& group) noexcept {
  group.is_leaving = true;
  try {
    if (group.comm >= CommNumber::kFirstParked) parts_.groups.retire(group.comm);
    const bool is_connecting = parts_.missing.is_connecting();
    is_connecting ? parts_.failures.keep_untold(group) : parts_.failures.forget_untold();
    parts_.failures.fail(group, error(Code::aborted, "rank %d: communicator %" PRIu64 " was destroyed",
                                      parts_.options.rank, group.comm), false);
    parts_.diagnostics.failed(group);
  } catch (const std::bad_alloc&) {
    parts_.failures.fail(group, Status(Code::aborted, "destroyed"), false);  // too short to need memory
  }
  parts_.keeper.end(group);
}

// ------------------------------------------------------------------------------- progress

Status Engine::begin(Group& group, const OpRequest& request, Work& work) {
  const Nanoseconds now = this->now();
  NEZHA_RETURN_IF_ERROR(parts_.operations.begin(group, request, work, now));
  if (request.attended && memory_ != nullptr) memory_->attend();
  // Where several operations are under way, the frames of all except the first leave together in
  // the next turn of the loop: one system call for many.
  if (open_calls(group) > 1) {
    next_wakeup_ = 0;
  } else {
    run(now);
  }
  return Status::ok();
}

Status Engine::begin(Group& group, const MessageRequest& request, Work& work) {
  if (!group.failed.is_ok()) return group.failed;
  work.flight = parts_.flight.submitted(group.comm, request);
  if (Status refused = Mailbox::of(group).submit(request, work); !refused) {
    parts_.flight.refused(work.flight, refused.code());
    return refused;
  }
  parts_.failures.expect_by(request.deadline);
  run(now());
  return Status::ok();
}

Result<std::optional<WaitingMessage>> Engine::probe(Group& group, const MessageRequest& request) {
  return Mailbox::of(group).probe(request);
}

bool Engine::run(Nanoseconds now) {
  if (now >= parts_.failures.next_deadline()) parts_.failures.check_deadlines(now);
  parts_.supervisor.run(now);
  bool output = false;
  do {
    while (Group* const group = parts_.agenda.take_progress()) parts_.operations.progress(*group);
    parts_.shrinker.run(now);
    if (parts_.agenda.first_to_settle() != nullptr) {
      parts_.diagnostics.announce_failures();
      parts_.keeper.settle_all();
    }
    if (now >= parts_.credit.acks_due()) parts_.credit.acknowledge_all();
    parts_.agenda.take_connect([this](int peer) { parts_.missing.need(parts_.peers.of(peer)); });
    output = parts_.transfers.run(now);
    // Sending can find a connection dead. No event will come to handle what that released or ended.
  } while (parts_.agenda.has_more());
  next_wakeup_ = std::min({parts_.failures.next_deadline(), parts_.credit.acks_due(),
                           parts_.supervisor.next_wakeup(), parts_.shrinker.next_wakeup(),
                           parts_.transfers.next_wakeup()});
  return output;
}

EngineCounters Engine::counters() const {
  return {parts_.operations.count(),
          parts_.transfers.retransmitted(),
          arrivals_.connections_lost(),
          parts_.supervisor.counters(),
          parts_.transfers.gate_counters(),
          parts_.pool.allocations(),
          parts_.pool.bytes_in_use(),
          parts_.pool.bytes_held()};
}

bool Engine::has_work() const {
  const bool is_idle = std::all_of(parts_.groups.begin(), parts_.groups.end(),
                                   [](const auto& group) { return group->is_idle(); });
  return !is_idle || parts_.transfers.has_work();
}

bool Engine::has_operation_over(uint64_t bytes) const {
  return parts_.operations.any_running(
      [&](const Group&, const Execution& each) { return each.bytes() > bytes; });
}

progress::Polling Engine::polling() const {
  const bool any_long = parts_.operations.any_running([](const Group& group, const Execution& each) {
    const double polled_bytes_max = group.costs.rate_bytes_per_s * kPolledMaxS;
    return static_cast<double>(each.bytes()) > polled_bytes_max && !each.in_memory();
  });
  return any_long ? progress::Polling::nobody : progress::Polling::callers;
}

// --------------------------------------------------------------------------------- leaving

void Engine::say_goodbye() {
  wire::FrameHeader header;
  header.type = wire::FrameType::goodbye;
  parts_.peers.each_connected([&](PeerLinks& links) {
    for (Link& link : links.links()) {
      link.connection->post_control(header, {});
      link.connection->flush();
    }
  });
}

bool Engine::all_peers_left() const {
  return std::all_of(parts_.peers.all().begin(), parts_.peers.all().end(), [](const auto& links) {
    return links == nullptr || links->any_up() == nullptr;
  });
}

}  // namespace nezha::engine
