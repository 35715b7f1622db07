// Communicator: an ordered group of ranks that performs operations together.
//
// Contract
//   Threads  any; operations take the order in which the calls are made. A blocking call drives the
//            loop itself.
//   Memory   buffers are borrowed until the operation's Work is done.
//   Errors   arguments are checked before anything is sent (`invalid_argument`, `unsupported`); the
//            first operational error is the answer to every later call.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "context/context.h"
#include "engine/engine.h"

namespace nezha::context {

struct CallOptions {
  double factor = 1.0;
  double timeout_s = 0;  // <= 0: the context's
  bool will_wait = false;  // the caller waits at once: no need to wake the background thread
  Algorithm algorithm = Algorithm::automatic;
};

class Communicator {
 public:
  // The world of a context.
  static Result<std::unique_ptr<Communicator>> world(std::shared_ptr<Context> context);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  Context& context() { return *context_; }

  // With `work`: returns at once. Without: blocks.
  Status all_reduce(const void* in, void* out, uint64_t count, Dtype dtype, ReduceOp op,
                    const CallOptions& options, engine::Work* work);
  Status broadcast(void* buffer, uint64_t count, Dtype dtype, int root, const CallOptions& options,
                   engine::Work* work);
  Status barrier(const CallOptions& options, engine::Work* work);

  // Collective. Null for a negative color.
  Result<std::unique_ptr<Communicator>> split(int color, int key);

  // Drives the loop until the work is done or the deadline passes; false in the latter case.
  bool wait(const engine::Work& work, Nanoseconds deadline);
  // One look, without sleeping.
  bool test(const engine::Work& work);
  void abort();

  std::string table_json();
  Status load_table(const std::string& json);

 private:
  Communicator(std::shared_ptr<Context> context, engine::Group* group)
      : context_(std::move(context)), group_(group) {}
  Status issue(engine::OpRequest request, const CallOptions& options, engine::Work* work);
  Status check(const void* buffer, uint64_t count, Dtype dtype, Collective collective) const;
  Result<std::unique_ptr<Communicator>> announce(int color);
  void load_table_file();
  void save_table_file();

  std::shared_ptr<Context> context_;
  engine::Group* group_;
  int rank_ = 0;
  int world_size_ = 1;
  bool is_world_ = false;
  uint32_t splits_ = 0;
};

}  // namespace nezha::context
