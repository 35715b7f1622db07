#include "context/batch.h"

namespace nezha::context {

void Batch::add(const engine::OpRequest& request, double timeout_s) {
  Item& item = items_.emplace_back();
  item.request = request;
  item.timeout_s = timeout_s;
  item.input_counts.assign(request.input_counts.begin(), request.input_counts.end());
  item.output_counts.assign(request.output_counts.begin(), request.output_counts.end());
}

void Batch::add(const engine::MessageRequest& request, double timeout_s) {
  Item& item = items_.emplace_back();
  item.request = request;
  item.timeout_s = timeout_s;
}

bool Batch::is_done() const {
  size_t done = done_.load(std::memory_order_relaxed);
  while (done < items_.size() && works_[done].is_done()) ++done;
  done_.store(done, std::memory_order_relaxed);
  return done == items_.size();
}

Status Batch::status() const {
  for (size_t i = 0; i < items_.size(); ++i) {
    if (!works_[i].status().is_ok()) return works_[i].status();
  }
  return Status::ok();
}

}  // namespace nezha::context
