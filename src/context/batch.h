// Batch: operations collected between group_begin and group_end, started together, with one outcome.
//
// Contract
//   Owner    the caller of group_end; it must live until `is_done()`, because the engine completes the
//            works inside.
//   Threads  filled and started by one thread; `is_done` and `status` (once done) by any.
//   Memory   buffers are borrowed until it is done; counts are copied.
//   Errors   the first operation, in the order of the calls, that failed speaks for all. What follows an
//            operation that could not be started is not started, so that the order stays that of the
//            other ranks.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <variant>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "engine/common/message.h"
#include "engine/common/work.h"
#include "progress/progress_lock.h"

namespace nezha::context {

class Batch {
 public:
  void add(const engine::OpRequest& request, double timeout_s);
  void add(const engine::MessageRequest& request, double timeout_s);
  size_t size() const { return items_.size(); }

  // `timeout_s` is for those that have none of their own.
  template <class Submit>
  void start(Submit submit, const Clock& clock, double timeout_s) NEZHA_REQUIRES_LOCK;
  bool is_done() const;
  Status status() const;

 private:
  struct Item {
    std::variant<engine::OpRequest, engine::MessageRequest> request;
    double timeout_s = 0;
    std::vector<uint64_t> input_counts;
    std::vector<uint64_t> output_counts;
  };

  std::vector<Item> items_;
  std::unique_ptr<engine::Work[]> works_;
  mutable std::atomic<size_t> done_{0};  // so many at the front are known to be done
};

// `submit(request, work)` for requests of both kinds, as the engine's.
template <class Submit>
void Batch::start(Submit submit, const Clock& clock, double timeout_s) {
  works_ = std::make_unique<engine::Work[]>(items_.size());
  Status outcome;
  for (size_t i = 0; i < items_.size(); ++i) {
    Item& item = items_[i];
    if (auto* operation = std::get_if<engine::OpRequest>(&item.request)) {
      operation->input_counts = item.input_counts;
      operation->output_counts = item.output_counts;
    }
    const auto deadline = deadline_after(clock, item.timeout_s > 0 ? item.timeout_s : timeout_s);
    std::visit([&](auto& request) NEZHA_REQUIRES_LOCK {
      request.deadline = deadline;
      if (outcome.is_ok()) outcome = submit(request, works_[i]);
    }, item.request);
    if (!outcome.is_ok()) works_[i].complete(outcome);
  }
}

}  // namespace nezha::context
