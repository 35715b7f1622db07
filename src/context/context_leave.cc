// Context: how a rank leaves its job.
#include <algorithm>
#include <new>

#include "base/file.h"
#include "base/log.h"
#include "context/context.h"

namespace nezha::context {
namespace {

constexpr Nanoseconds kFarewell = 100 * kMillisecond;
// How long a rank that leaves waits until its dumps and the lines of its log are written.
constexpr Nanoseconds kWritten = 2 * kSecond;

}  // namespace

// Closes the store, which this rank needs no more: its port is then free for the next job, and a
// caller's own store is not called while its program ends.
void Context::leave_store(double patience_s) {
  bootstrap_->clean_up(session_, static_cast<Nanoseconds>(patience_s * kSecond));
  bootstrap_.reset();
  store_.reset();
}

Context::~Context() {
  try {
    if (engine_ != nullptr && world_size_ > 1) leave();
    // After a failure the slowest rank may still be trying its rails (connect/mesh_builder.h).
    if (bootstrap_ != nullptr && met_) leave_store(3 * config_.probe_timeout_s + 2);
  } catch (const std::bad_alloc&) {
    // To leave in order takes memory; otherwise the other ranks only see a connection end.
  }
  if (loop_ != nullptr) loop_->stop();
  aggregation_.reset();
  flight_dump_.reset();  // nobody drives the loop any more
  // Some programs end by _exit(), which waits for no thread, so this waits.
  finish_file_work(kWritten);
  log::finish(kWritten);
}

// Leaves in order: first the acknowledgements for which other ranks wait, then the goodbye.
void Context::leave() {
  const Nanoseconds linger =
      loop_->clock().now() + static_cast<Nanoseconds>(config_.linger_s * kSecond);
  progress::Loop::Lock lock(*loop_);
  if (aggregation_ != nullptr) aggregation_->leave();
  engine_->acknowledge_all();
  // The rank also waits for connections that are being made: those that it needs, such as to tell a
  // rank of an error, and those that a peer may count as made. The goodbye is for these ranks, too.
  const auto is_connecting = [&]() NEZHA_REQUIRES_LOCK { return engine_->is_connecting(); };
  const auto is_drained = [&]() NEZHA_REQUIRES_LOCK { return engine_->is_drained(); };
  lock.drive_to_the_end([&]() NEZHA_REQUIRES_LOCK { return is_drained() && !is_connecting(); }, linger);
  // Transfers to a rank that is still being connected need longer.
  const Nanoseconds met = linger + static_cast<Nanoseconds>(3 * config_.probe_timeout_s * kSecond);
  lock.drive_to_the_end([&]() NEZHA_REQUIRES_LOCK { return is_drained() || !is_connecting(); }, met);
  lock.drive_to_the_end(is_drained, std::max(linger, std::min(met, loop_->clock().now() + kFarewell)));
  engine_->stop_connecting();
  engine_->say_goodbye();
  // This rank reads on for a moment: a reset could reach the others in place of its last frames.
  lock.drive_to_the_end([&]() NEZHA_REQUIRES_LOCK { return engine_->all_peers_left(); },
                         std::min(linger, loop_->clock().now() + kFarewell));
}

// Lock held.

}  // namespace nezha::context
