// Communicator: how calls become operations of the engine, one by one or in groups, and waiting.
#include "base/interrupt.h"
#include "context/communicator.h"
#include "schedule/candidates.h"

namespace nezha::context {

using progress::Loop;

// A caller's own choice is taken as it is. Otherwise the algorithm of the user's file, then the
// configured one, is taken for the collectives and sizes that it fits.
Algorithm Communicator::choose(const engine::OpRequest& request, Algorithm asked) const {
  if (asked != Algorithm::automatic) return asked;
  const Config& config = context_->config();
  const auto fits = [&](const schedule::Shape& shape) {
    const bool whole = shape.geometry == schedule::Geometry::block_parts;
    return !whole || request.count * dtype_size(request.dtype) <= config.chunk_bytes;
  };
  const schedule::FileAlgorithm* own = context_->file_algorithm();
  if (own != nullptr && own->does(request.collective, world_size_, request.root) && fits(own->shape)) {
    return Algorithm::file;
  }
  if (config.algorithm == name_of(Algorithm::automatic)) return Algorithm::automatic;
  auto configured = parse_algorithm(config.algorithm);
  if (!configured) return Algorithm::automatic;
  auto candidate = schedule::find_candidate(request.collective, *configured, world_size_,
                                            group_->hosts.get());
  return candidate && fits(candidate->shape) ? *configured : Algorithm::automatic;
}

Status Communicator::submit(const engine::OpRequest& request, engine::Work& work) {
  if (aggregation_ != nullptr) return aggregation_->submit(request, work);
  return context_->groups().submit(*group_, request, work);
}

Status Communicator::submit(const engine::MessageRequest& request, engine::Work& work) {
  return context_->groups().submit_message(*group_, request, work);
}

Status Communicator::issue(engine::OpRequest request, const CallOptions& options,
                           engine::Work* work) {
  request.algorithm = choose(request, options.algorithm);
  request.attended = work == nullptr || options.will_wait;
  return carry_out(request, options, work);
}

Status Communicator::issue(engine::MessageRequest request, const CallOptions& options,
                           engine::Work* work) {
  return carry_out(request, options, work);
}

template <class Request>
Status Communicator::carry_out(Request& request, const CallOptions& options, engine::Work* work) {
  if (Batch* batch = open_batch()) {
    if (work != nullptr) {
      return error(Code::invalid_argument, "rank %d: between group_begin and group_end an operation has "
                   "no work handle of its own; pass none, and wait for the group's", rank_);
    }
    batch->add(request, options.timeout_s);
    return Status::ok();
  }
  Loop& loop = context_->loop();
  const double timeout_s = options.timeout_s > 0 ? options.timeout_s : context_->timeout_s();
  request.deadline = deadline_after(loop.clock(), timeout_s);
  engine::Work own;
  engine::Work& started = work != nullptr ? *work : own;
  bool work_left = false;
  {
    Loop::Lock lock(loop);
    NEZHA_RETURN_IF_ERROR(submit(request, started));
    drive_at_once(lock, [&] { return started.is_done(); }, work == nullptr, options);
    if (started.is_done()) lock.drive_if_due();
    work_left = context_->has_work();
  }
  if (work == nullptr && !own.is_done()) {  // another thread asked for the progress lock
    wait_or_abort(own);
  } else if (work_left && (started.is_done() || !options.will_wait)) {
    // The background thread moves what is left while the caller computes.
    loop.kick();
  }
  return work == nullptr ? own.status() : Status::ok();
}

// A caller that waits for the operation that it has just started drives at once, without giving the
// progress lock back in between.
template <class Done>
void Communicator::drive_at_once(Loop::Lock& lock, Done done, bool blocks, const CallOptions& options) {
  if (!blocks && !options.will_wait) return;
  const Clock& clock = context_->loop().clock();
  lock.drive_until(done, blocks ? end_of_piece(clock, kNever) : clock.now() + kWaitAtOnce);
}

// --------------------------------------------------------------------------------- waiting

template <class Done>
bool Communicator::wait_for(Done done, Nanoseconds deadline) {
  if (done()) return true;
  // If another thread was the last to drive, that thread looks after the work that is left.
  bool work_left = false;
  Loop& loop = context_->loop();
  while (!done() && loop.clock().now() < deadline && !interrupted()) {
    loop.drive_until(done, end_of_piece(loop.clock(), deadline),
                     [&]() NEZHA_REQUIRES_LOCK { work_left = context_->has_work(); });
  }
  if (work_left) loop.kick();
  return done();
}

template <class Done>
void Communicator::wait_for_or_abort(Done done) {
  if (wait_for(done, kNever)) return;
  abort();
  context_->loop().drive_until(done, kNever);
}

bool Communicator::wait(const engine::Work& work, Nanoseconds deadline) {
  return wait_for([&] { return work.is_done(); }, deadline);
}

bool Communicator::wait(const Batch& batch, Nanoseconds deadline) {
  return wait_for([&] { return batch.is_done(); }, deadline);
}

void Communicator::wait_or_abort(const engine::Work& work) {
  wait_for_or_abort([&] { return work.is_done(); });
}

void Communicator::wait_or_abort(const Batch& batch) {
  wait_for_or_abort([&] { return batch.is_done(); });
}

bool Communicator::test(const engine::Work& work) {
  if (work.is_done()) return true;
  Loop::Lock lock(context_->loop());
  lock.drive_once();
  return work.is_done();
}

bool Communicator::test(const Batch& batch) {
  if (batch.is_done()) return true;
  Loop::Lock lock(context_->loop());
  lock.drive_once();
  return batch.is_done();
}

// ---------------------------------------------------------------------------------- groups

Batch* Communicator::open_batch() {
  if (batch_count_.load(std::memory_order_relaxed) == 0) return nullptr;
  std::lock_guard lock(batches_mutex_);
  const auto found = batches_.find(std::this_thread::get_id());
  return found == batches_.end() ? nullptr : found->second.get();
}

Result<std::unique_ptr<Batch>> Communicator::close_batch(const char* call) {
  std::lock_guard lock(batches_mutex_);
  const auto found = batches_.find(std::this_thread::get_id());
  if (found == batches_.end()) {
    return error(Code::invalid_argument, "rank %d: %s without group_begin on this communicator in this "
                 "thread", rank_, call);
  }
  std::unique_ptr<Batch> batch = std::move(found->second);
  batches_.erase(found);
  batch_count_.fetch_sub(1, std::memory_order_relaxed);
  return batch;
}

Status Communicator::group_begin() {
  std::lock_guard lock(batches_mutex_);
  auto [place, is_new] = batches_.try_emplace(std::this_thread::get_id());
  if (!is_new) {
    return error(Code::invalid_argument, "rank %d: group_begin inside a group; groups do not nest, end "
                 "the one that this thread has begun", rank_);
  }
  place->second = std::make_unique<Batch>();
  batch_count_.fetch_add(1, std::memory_order_relaxed);
  return Status::ok();
}

Status Communicator::group_cancel() { return close_batch("group_cancel").status(); }

Status Communicator::group_end(const CallOptions& options, std::unique_ptr<Batch>* batch) {
  auto closed = close_batch("group_end");
  if (!closed) return closed.status();
  Loop& loop = context_->loop();
  const double timeout_s = options.timeout_s > 0 ? options.timeout_s : context_->timeout_s();
  Batch& started = **closed;
  bool work_left = false;
  {
    Loop::Lock lock(loop);
    const auto begin = [this](const auto& request, engine::Work& work) NEZHA_REQUIRES_LOCK {
      return submit(request, work);
    };
    started.start(begin, loop.clock(), timeout_s);
    drive_at_once(lock, [&] { return started.is_done(); }, batch == nullptr, options);
    work_left = context_->has_work();
  }
  if (batch == nullptr && !started.is_done()) {
    wait_or_abort(started);
  } else if (work_left && (started.is_done() || !options.will_wait)) {
    loop.kick();
  }
  if (batch == nullptr) return started.status();
  *batch = std::move(*closed);
  return Status::ok();
}

}  // namespace nezha::context
