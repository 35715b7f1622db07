#include "aggregation/protocol/registration_client.h"

#include <memory>

#include "aggregation/protocol/registration.h"
#include "rails/policy.h"

namespace nezha::aggregation {

Result<engine::Group*> make_plain_group(engine::GroupCalls& calls, uint64_t comm,
                                       std::vector<int> members, schedule::AggregationTree tree,
                                       const schedule::CostTable& costs) {
  engine::GroupRequest request;
  request.comm = comm;
  request.members = std::move(members);
  request.tree = std::move(tree);
  request.costs = costs;
  auto policy = rails::make_policy("pull", {});
  if (!policy) return policy.status();
  request.policy = std::move(*policy);
  return calls.create_group(std::move(request));
}

std::vector<int> global_ranks(const engine::Group& group) {
  std::vector<int> ranks;
  for (const engine::Member& member : group.members) ranks.push_back(member.global_rank);
  return ranks;
}

Status RegistrationClient::open() {
  auto group = make_plain_group(calls_, registration_comm(static_cast<uint32_t>(me_)), {me_, node_}, {});
  if (!group) return group.status();
  channel_ = *group;
  return Status::ok();
}

uint64_t RegistrationClient::register_group(uint64_t comm, const std::vector<int>& members,
                          const schedule::AggregationTree& tree) {
  const RegistrationRequest request{comm, static_cast<uint32_t>(members.size()),
                          static_cast<uint32_t>(tree.nodes())};
  const MemberList list{members, tree.parent};
  requests_.push_back({next_number_, encode(request), encode(list)});
  return next_number_++;
}

void RegistrationClient::leave(uint64_t comm) {
  requests_.push_back({0, encode(RegistrationRequest{comm, 0, 0}), {}});
}

std::optional<Status> RegistrationClient::take_reply(uint64_t number) {
  const auto found = answers_.find(number);
  if (found == answers_.end()) return std::nullopt;
  std::optional<Status> answer(std::move(found->second));
  answers_.erase(found);
  return answer;
}

Status RegistrationClient::post(std::string& bytes, bool is_send, uint32_t tag, engine::Work& work) {
  engine::MessageRequest request;
  request.is_send = is_send;
  request.buffer = bytes.data();
  request.count = bytes.size();
  request.peer = 1;
  request.tag = tag;
  work.renew();
  return calls_.submit_message(*channel_, request, work);
}

Status RegistrationClient::send(Request& request) {
  reply_.assign(kReplyBytes, '\0');
  NEZHA_RETURN_IF_ERROR(post(reply_, false, kReplyTag, replied_));
  NEZHA_RETURN_IF_ERROR(post(request.request, true, kRequestTag, request_sent_));
  if (request.member_list.empty()) return Status::ok();
  return post(request.member_list, true, kMemberListTag, list_sent_);
}

void RegistrationClient::answer(const Status& outcome) {
  if (requests_.front().number != 0) answers_.emplace(requests_.front().number, outcome);
  requests_.pop_front();
  asked_ = false;
}

void RegistrationClient::run() {
  while (!requests_.empty()) {
    if (broken_.is_ok() && !asked_) broken_ = send(requests_.front());
    if (!broken_.is_ok()) {
      // The messages of the first request that are under way end with the group.
      calls_.fail(*channel_, broken_, false);
      answer(broken_);
      continue;
    }
    asked_ = true;
    const bool has_list = !requests_.front().member_list.empty();
    if (!replied_.is_done() || !request_sent_.is_done() || (has_list && !list_sent_.is_done())) return;
    if (!replied_.status()) broken_ = replied_.status();
    answer(broken_.is_ok() ? decode_reply(reply_) : broken_);
  }
}

}  // namespace nezha::aggregation
