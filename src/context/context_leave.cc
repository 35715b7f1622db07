// Context: how a rank leaves its job.
#include <algorithm>
#include <new>

#include "base/file.h"
#include "base/log.h"
#include "context/context.h"

namespace nezha::context {
namespace {

constexpr Nanoseconds kFarewell = 100 * kMillisecond;
// For dumps and lines of the log that wait for a disk.
constexpr Nanoseconds kWritten = 2 * kSecond;

}  // namespace

// The store is of no more use. Gone now, its port is free for the next job, and nothing of the caller's
// own store is called while its program ends.
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
    // Manners need memory; without them the others see a connection end.
  }
  if (loop_ != nullptr) loop_->stop();
  aggregation_.reset();
  flight_dump_.reset();  // nobody drives the loop any more
  // Some programs end by _exit(), which waits for nobody.
  finish_file_work(kWritten);
  log::finish(kWritten);
}

// In order: nobody is left waiting for an acknowledgement of ours, then goodbye.
void Context::leave() {
  const Nanoseconds linger =
      loop_->clock().now() + static_cast<Nanoseconds>(config_.linger_s * kSecond);
  progress::Loop::Lock lock(*loop_);
  if (aggregation_ != nullptr) aggregation_->leave();
  engine_->credit().acknowledge_all();
  // Also until those are met who are to be told of an error, and until those have a connection who are
  // about to: the goodbye is for them, too.
  const auto is_connecting = [&] {
    return engine_->supervisor().is_connecting() || engine_->missing().is_accepting();
  };
  lock.drive_to_the_end([&] { return engine_->transfers().is_drained() && !is_connecting(); }, linger);
  // What is to be sent to a rank that is still being connected needs longer.
  const Nanoseconds met = linger + static_cast<Nanoseconds>(3 * config_.probe_timeout_s * kSecond);
  const auto is_through = [&] { return engine_->transfers().is_drained() || !is_connecting(); };
  lock.drive_to_the_end(is_through, met);
  lock.drive_to_the_end([&] { return engine_->transfers().is_drained(); },
                         std::max(linger, std::min(met, loop_->clock().now() + kFarewell)));
  engine_->supervisor().stop();
  engine_->say_goodbye();
  // Reading on for a moment spares the others a reset in place of our last words.
  lock.drive_to_the_end([&] { return engine_->all_peers_left(); },
                         std::min(linger, loop_->clock().now() + kFarewell));
}

// Lock held.

}  // namespace nezha::context
