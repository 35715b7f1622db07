// RegistrationClient: the client of registration.h: one member of a job sends requests to one node.
//
// Contract
//   Owner    the owner of the engine, which outlives it.
//   Order    requests are sent and answered one by one, in the order of the calls.
//   Errors   when the node is lost, every request is answered with `peer_lost`; otherwise as
//            decode_reply.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/group_calls.h"
#include "schedule/aggregation.h"

namespace nezha::aggregation {

class RegistrationClient {
 public:
  // `me`, `node`: their numbers in the job.
  RegistrationClient(engine::GroupCalls& calls, int me, int node)
      : calls_(calls), me_(me), node_(node) {}
  RegistrationClient(const RegistrationClient&) = delete;
  RegistrationClient& operator=(const RegistrationClient&) = delete;

  // Makes the group of this member and the node.
  Status open() NEZHA_REQUIRES_LOCK;
  // Asks the node to serve this communicator. Returns the number for take_reply. `members`: global, nodes
  // last.
  uint64_t register_group(uint64_t comm, const std::vector<int>& members,
                  const schedule::AggregationTree& tree) NEZHA_REQUIRES_LOCK;
  // This member and those below it leave the communicator. Nobody waits for the reply.
  void leave(uint64_t comm) NEZHA_REQUIRES_LOCK;
  // The reply to a request, when it is there; once for each number.
  std::optional<Status> take_reply(uint64_t number) NEZHA_REQUIRES_LOCK;
  // To be called after the engine has run.
  void run() NEZHA_REQUIRES_LOCK;
  // Ok, or why nothing can be asked any more: the node's reason if it gave one.
  const Status& failure() const { return channel_->failed; }

 private:
  struct Request {
    uint64_t number = 0;     // 0: nobody wants the reply
    std::string request;
    std::string member_list;  // empty: no list follows
  };
  Status post(std::string& bytes, bool is_send, uint32_t tag, engine::Work& work) NEZHA_REQUIRES_LOCK;
  Status send(Request& request) NEZHA_REQUIRES_LOCK;
  void answer(const Status& outcome) NEZHA_REQUIRES_LOCK;

  engine::GroupCalls& calls_;
  const int me_;
  const int node_;
  engine::Group* channel_ = nullptr;
  uint64_t next_number_ = 1;
  std::deque<Request> requests_;  // the first is under way when `asked_`
  bool asked_ = false;
  Status broken_;  // why nothing can be asked any more
  std::string reply_;
  engine::Work request_sent_;
  engine::Work list_sent_;
  engine::Work replied_;
  std::map<uint64_t, Status> answers_;
};

// Makes a group whose rails take what they can, with policy `pull`. `tree`: of a group with
// aggregation nodes.
Result<engine::Group*> make_plain_group(engine::GroupCalls& calls, uint64_t comm,
                                       std::vector<int> members, schedule::AggregationTree tree,
                                       const schedule::CostTable& costs = {}) NEZHA_REQUIRES_LOCK;

// The global ranks of the group's members, in their order.
std::vector<int> global_ranks(const engine::Group& group);

}  // namespace nezha::aggregation
