// Engine: what ends when memory runs out.
#include <new>

#include "engine/engine.h"

namespace nezha::engine {
namespace {

Status out_of_memory_at(int rank) noexcept {
  return nothrow_error(Code::exhausted, "rank %d: out of memory in the middle of its work; give it more, "
                       "or lower credit_bytes and chunk_bytes", rank);
}

}  // namespace

// Once the engine knows `work`, nothing may unwind its caller.
template <class Begin>
Status Engine::guarded(const Work& work, Begin begin) {
  try {
    return begin();
  } catch (const std::bad_alloc&) {
    out_of_memory();
  }
  return work.is_done() ? Status::ok() : out_of_memory_at(parts_.options.rank);
}

Status Engine::submit(Group& group, const OpRequest& request, Work& work) {
  return guarded(work, [&]() NEZHA_REQUIRES_LOCK { return begin(group, request, work); });
}

Status Engine::submit_message(Group& group, const MessageRequest& request, Work& work) {
  return guarded(work, [&]() NEZHA_REQUIRES_LOCK { return begin(group, request, work); });
}

Status Engine::submit_shrink(Group& group, std::unique_ptr<rails::Policy> policy,
                             Nanoseconds deadline, ShrinkCall& call) {
  return guarded(call.work, [&]() NEZHA_REQUIRES_LOCK {
    NEZHA_RETURN_IF_ERROR(parts_.shrinker.begin(group, std::move(policy), deadline, call));
    run(now());
    return Status::ok();
  });
}

void Engine::abort(Group& group, const Status& why) noexcept {
  try {
    parts_.failures.fail(group, why, true);
    parts_.shrinker.cancel(group, why, true);
    run(now());
  } catch (const std::bad_alloc&) {
    out_of_memory();
  }
}

// Settles the groups here, not in the next `run`, which would first write a dump of the failure.
void Engine::out_of_memory() noexcept {
  const Status why = out_of_memory_at(parts_.options.rank);
  parts_.shrinker.out_of_memory(why);
  for (const auto& group : parts_.groups) {
    try {
      parts_.failures.fail(*group, why, true);
    } catch (const std::bad_alloc&) {
      // It has failed here. Ranks that could not be told find out by their deadlines.
    }
    parts_.keeper.settle(*group);
  }
}

}  // namespace nezha::engine
