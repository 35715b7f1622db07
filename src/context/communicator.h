// Communicator: an ordered group of ranks that performs operations together.
//
// Contract
//   Threads  any; operations take the order in which the calls are made. A blocking call drives the
//            loop itself.
//   Memory   buffers are borrowed until the operation's Work is done.
//   Errors   arguments are checked before anything is sent (`invalid_argument`, `unsupported`); the
//            first operational error is the answer to every later call.
//   Blocks   `count` is the elements of one block, `counts[r]` those of rank r's; see nezha.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>

#include "base/status.h"
#include "context/aggregation.h"
#include "context/batch.h"
#include "context/context.h"
#include "engine/engine.h"

namespace nezha::context {

struct CallOptions {
  double factor = 1.0;
  double timeout_s = 0;  // <= 0: the context's
  // The caller takes a Work and will wait for it at once. The call itself then waits first, at most for
  // kWaitAtOnce, so that a short operation needs no second call.
  bool will_wait = false;
  Algorithm algorithm = Algorithm::automatic;
};

class Communicator {
 public:
  // Makes the communicator of all ranks of a context.
  static Result<std::unique_ptr<Communicator>> world(std::shared_ptr<Context> context)
      NEZHA_EXCLUDES_LOCK;
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  Context& context() { return *context_; }

  // With `work`, a call returns at once. Without, it blocks, and aborts the communicator when its
  // thread is interrupted. Between group_begin and group_end a call is only noted, and `work` must
  // be null.
  Status all_reduce(const void* in, void* out, uint64_t count, Dtype dtype, ReduceOp op,
                    const CallOptions& options, engine::Work* work) NEZHA_EXCLUDES_LOCK;
  Status broadcast(void* buffer, uint64_t count, Dtype dtype, int root, const CallOptions& options,
                   engine::Work* work) NEZHA_EXCLUDES_LOCK;
  Status all_gather(const void* in, void* out, uint64_t count, Dtype dtype,
                    const CallOptions& options, engine::Work* work) NEZHA_EXCLUDES_LOCK;
  Status all_gather_v(const void* in, void* out, const uint64_t* counts, Dtype dtype,
                      const CallOptions& options, engine::Work* work) NEZHA_EXCLUDES_LOCK;
  Status reduce_scatter(const void* in, void* out, uint64_t count, Dtype dtype, ReduceOp op,
                        const CallOptions& options, engine::Work* work) NEZHA_EXCLUDES_LOCK;
  Status reduce_scatter_v(const void* in, void* out, const uint64_t* counts, Dtype dtype,
                          ReduceOp op, const CallOptions& options, engine::Work* work)
      NEZHA_EXCLUDES_LOCK;
  // `out` of reduce and gather, and `in` of scatter, are used on the root only.
  Status reduce(const void* in, void* out, uint64_t count, Dtype dtype, ReduceOp op, int root,
                const CallOptions& options, engine::Work* work) NEZHA_EXCLUDES_LOCK;
  Status gather(const void* in, void* out, uint64_t count, Dtype dtype, int root,
                const CallOptions& options, engine::Work* work) NEZHA_EXCLUDES_LOCK;
  Status scatter(const void* in, void* out, uint64_t count, Dtype dtype, int root,
                 const CallOptions& options, engine::Work* work) NEZHA_EXCLUDES_LOCK;
  Status all_to_all(const void* in, void* out, uint64_t count, Dtype dtype,
                    const CallOptions& options, engine::Work* work) NEZHA_EXCLUDES_LOCK;
  Status all_to_all_v(const void* in, const uint64_t* send_counts, void* out,
                      const uint64_t* receive_counts, Dtype dtype, const CallOptions& options,
                      engine::Work* work) NEZHA_EXCLUDES_LOCK;
  Status barrier(const CallOptions& options, engine::Work* work) NEZHA_EXCLUDES_LOCK;

  // These carry one message, outside the order of the collectives. A receive's `source` may be
  // engine::kAnySource, and its `tag` engine::kAnyTag.
  Status send(const void* buffer, uint64_t count, Dtype dtype, int destination, uint32_t tag,
              const CallOptions& options, engine::Work* work) NEZHA_EXCLUDES_LOCK;
  Status receive(void* buffer, uint64_t count, Dtype dtype, int source, uint32_t tag,
                 const CallOptions& options, engine::Work* work) NEZHA_EXCLUDES_LOCK;
  // One look, without sleeping, for a message that such a receive would take.
  Result<std::optional<engine::WaitingMessage>> probe(int source, uint32_t tag) NEZHA_EXCLUDES_LOCK;

  // The operations that this thread calls between group_begin and group_end start together. With
  // `batch`, group_end returns at once; without, it blocks. group_cancel forgets the calls. If an
  // operation fails, the batch has the error.
  Status group_begin();
  Status group_end(const CallOptions& options, std::unique_ptr<Batch>* batch) NEZHA_EXCLUDES_LOCK;
  Status group_cancel();

  // Every rank calls it. The result is null for a negative color.
  Result<std::unique_ptr<Communicator>> split(int color, int key) NEZHA_EXCLUDES_LOCK;
  // Only the ranks in `ranks` call it, this rank among them; no message is needed.
  Result<std::unique_ptr<Communicator>> create(std::span<const int> ranks, std::string_view name)
      NEZHA_EXCLUDES_LOCK;

  // Makes a communicator of this one's survivors, in their order. Every survivor calls it; this
  // communicator is then over on all of them. `timeout_s` <= 0: the context's.
  Result<std::unique_ptr<Communicator>> shrink(double timeout_s) NEZHA_EXCLUDES_LOCK;

  // Drives the loop until the work is done, the deadline passes or the thread is interrupted
  // (base/interrupt.h); true in the first case.
  bool wait(const engine::Work& work, Nanoseconds deadline) NEZHA_EXCLUDES_LOCK;
  bool wait(const Batch& batch, Nanoseconds deadline) NEZHA_EXCLUDES_LOCK;
  // Waits for a caller who keeps no handle: the work is done when it returns. When the thread is
  // interrupted, the communicator is aborted, which ends the work.
  void wait_or_abort(const engine::Work& work) NEZHA_EXCLUDES_LOCK;
  void wait_or_abort(const Batch& batch) NEZHA_EXCLUDES_LOCK;
  // Whether the work is done. If it is not at first, this drives the loop once, without sleeping.
  bool test(const engine::Work& work) NEZHA_EXCLUDES_LOCK;
  bool test(const Batch& batch) NEZHA_EXCLUDES_LOCK;
  void abort() NEZHA_EXCLUDES_LOCK;

  std::string table_json() NEZHA_EXCLUDES_LOCK;
  std::string stragglers_json() NEZHA_EXCLUDES_LOCK;
  Status load_table(const std::string& json) NEZHA_EXCLUDES_LOCK;

 private:
  static constexpr Nanoseconds kWaitAtOnce = 100 * kMillisecond;

  // Made without a group, so that it takes no memory to give a group that exists to its owner.
  explicit Communicator(std::shared_ptr<Context> context) : context_(std::move(context)) {}
  Status adopt(engine::Group& group) NEZHA_REQUIRES_LOCK;
  Status reduce_scatter_blocks(const char* call, const void* in, void* out, uint64_t total,
                               const uint64_t* counts, Dtype dtype, ReduceOp op,
                               const CallOptions& options, engine::Work* work) NEZHA_EXCLUDES_LOCK;
  Status all_gather_blocks(const char* call, const void* in, void* out, uint64_t total,
                           const uint64_t* counts, Dtype dtype, const CallOptions& options,
                           engine::Work* work) NEZHA_EXCLUDES_LOCK;
  // The number of elements in front of this rank's block, and in it.
  uint64_t own_begin(uint64_t total, const uint64_t* counts) const;
  uint64_t own_count(uint64_t total, const uint64_t* counts) const;

  Status issue(engine::OpRequest request, const CallOptions& options, engine::Work* work)
      NEZHA_EXCLUDES_LOCK;
  Status issue(engine::MessageRequest request, const CallOptions& options, engine::Work* work)
      NEZHA_EXCLUDES_LOCK;
  // The common part of both issue(): adds the request to the open batch; without one, submits it
  // and, if `work` is null, waits for it.
  template <class Request>
  Status carry_out(Request& request, const CallOptions& options, engine::Work* work) NEZHA_EXCLUDES_LOCK;
  Status submit(const engine::OpRequest& request, engine::Work& work) NEZHA_REQUIRES_LOCK;
  Status submit(const engine::MessageRequest& request, engine::Work& work) NEZHA_REQUIRES_LOCK;
  Algorithm choose(const engine::OpRequest& request, Algorithm asked) const;
  template <class Done>
  void drive_at_once(progress::Loop::Lock& lock, Done done, bool blocks, const CallOptions& options)
      NEZHA_REQUIRES_LOCK;
  template <class Done>
  bool wait_for(Done done, Nanoseconds deadline) NEZHA_EXCLUDES_LOCK;
  template <class Done>
  void wait_for_or_abort(Done done) NEZHA_EXCLUDES_LOCK;
  // The batch that this thread is filling; null when there is none.
  Batch* open_batch();
  Result<std::unique_ptr<Batch>> close_batch(const char* call);

  Result<std::unique_ptr<Communicator>> announce(int color) NEZHA_EXCLUDES_LOCK;
  Result<std::unique_ptr<Communicator>> adopt(engine::GroupRequest request) NEZHA_EXCLUDES_LOCK;
  Result<uint64_t> next_generation(uint64_t key) NEZHA_EXCLUDES_LOCK;
  void leave() NEZHA_EXCLUDES_LOCK;
  void load_table_file() NEZHA_EXCLUDES_LOCK;
  void save_table_file() NEZHA_EXCLUDES_LOCK;

  std::shared_ptr<Context> context_;
  engine::Group* group_ = nullptr;
  int rank_ = 0;
  int world_size_ = 1;
  std::string table_file_;  // this rank's own; empty where nothing is to be saved
  std::unique_ptr<AggregationGroup> aggregation_;  // null without an aggregation node
  uint64_t splits_ = 0;
  std::mutex generations_mutex_;
  std::unordered_map<uint64_t, uint64_t> generations_;  // of create(), by name and ranks

  std::atomic<int> batch_count_{0};  // so that calls outside of groups need no lock
  std::mutex batches_mutex_;
  std::map<std::thread::id, std::unique_ptr<Batch>> batches_;  // guarded by batches_mutex_
};

}  // namespace nezha::context
