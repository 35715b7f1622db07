#include "aggregation/protocol/registration_client.h"

#include <memory>

#include "aggregation/protocol/registration.h"
#include "control/policy.h"

namespace nezha::engine {

Result<Group*> make_plain_group(Engine& engine, uint32_t comm, std::vector<int> members,
                                schedule::AggregationTree tree, const schedule::CostTable& costs) {
  GroupRequest request;
  request.comm = comm;
  request.members = std::move(members);
  request.tree = std::move(tree);
  request.costs = costs;
  auto policy = control::make_policy("pull", {});
  if (!policy) return policy.status();
  request.policy = std::move(*policy);
  return engine.create_group(std::move(request));
}

Status Enlister::open() {
  const int me = engine_.options().rank;
  auto group = make_plain_group(engine_, wire::desk_comm(static_cast<uint32_t>(me)), {me, hub_}, {});
  if (!group) return group.status();
  desk_ = *group;
  return Status::ok();
}

uint64_t Enlister::enlist(uint32_t comm, const std::vector<int>& members,
                          const schedule::AggregationTree& tree) {
  const wire::Order order{comm, static_cast<uint32_t>(members.size()),
                          static_cast<uint32_t>(tree.hubs())};
  const wire::Roll roll{members, tree.parent};
  requests_.push_back({next_number_, wire::encode(order), wire::encode(roll)});
  return next_number_++;
}

void Enlister::leave(uint32_t comm) {
  requests_.push_back({0, wire::encode(wire::Order{comm, 0, 0}), {}});
}

std::optional<Status> Enlister::take_answer(uint64_t number) {
  const auto found = answers_.find(number);
  if (found == answers_.end()) return std::nullopt;
  std::optional<Status> answer(std::move(found->second));
  answers_.erase(found);
  return answer;
}

Status Enlister::post(std::string& bytes, bool is_send, uint32_t tag, Work& work) {
  MessageRequest request;
  request.is_send = is_send;
  request.buffer = bytes.data();
  request.count = bytes.size();
  request.peer = 1;
  request.tag = tag;
  work.renew();
  return engine_.submit_message(*desk_, request, work);
}

Status Enlister::send(Request& request) {
  reply_.assign(wire::kAnswerBytes, '\0');
  NEZHA_RETURN_IF_ERROR(post(reply_, false, wire::kAnswerTag, replied_));
  NEZHA_RETURN_IF_ERROR(post(request.order, true, wire::kOrderTag, order_sent_));
  return request.roll.empty() ? Status::ok() : post(request.roll, true, wire::kRollTag, roll_sent_);
}

void Enlister::answer(const Status& outcome) {
  if (requests_.front().number != 0) answers_.emplace(requests_.front().number, outcome);
  requests_.pop_front();
  asked_ = false;
}

void Enlister::run() {
  while (!requests_.empty()) {
    if (broken_.is_ok() && !asked_) broken_ = send(requests_.front());
    if (!broken_.is_ok()) {
      // What is under way of the first ends with the group.
      engine_.fail_group(*desk_, broken_, false);
      answer(broken_);
      continue;
    }
    asked_ = true;
    const bool has_roll = !requests_.front().roll.empty();
    if (!replied_.is_done() || !order_sent_.is_done() || (has_roll && !roll_sent_.is_done())) return;
    if (!replied_.status()) broken_ = replied_.status();
    answer(broken_.is_ok() ? wire::decode_answer(reply_) : broken_);
  }
}

}  // namespace nezha::engine
