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

Status Batch::submit(Item& item, engine::Engine& engine, engine::Group& group,
                     engine::Work& work) {
  if (auto* message = std::get_if<engine::MessageRequest>(&item.request)) {
    return engine.submit_message(group, *message, work);
  }
  auto& operation = std::get<engine::OpRequest>(item.request);
  operation.input_counts = item.input_counts;
  operation.output_counts = item.output_counts;
  return engine.submit(group, operation, work);
}

void Batch::start(engine::Engine& engine, engine::Group& group, const Clock& clock,
                  double timeout_s) {
  works_ = std::make_unique<engine::Work[]>(items_.size());
  Status outcome;
  for (size_t i = 0; i < items_.size(); ++i) {
    Item& item = items_[i];
    const auto deadline = deadline_after(clock, item.timeout_s > 0 ? item.timeout_s : timeout_s);
    std::visit([&](auto& request) { request.deadline = deadline; }, item.request);
    if (outcome.is_ok()) outcome = submit(item, engine, group, works_[i]);
    if (!outcome.is_ok()) works_[i].complete(outcome);
  }
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
