// Enlister: the asking half of aggregation/protocol/registration.h: what one member of a job wants of one hub.
//
// Contract
//   Owner    whoever owns the engine, and outlived by it; baton held.
//   Order    orders are sent and answered one by one, in the order of asking.
//   Errors   a hub that is lost answers everything with `peer_lost`; otherwise as wire::decode_answer.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "engine/work.h"
#include "schedule/aggregation.h"

namespace nezha::engine {

class Enlister {
 public:
  // `hub`: its number in the job.
  Enlister(Engine& engine, int hub) : engine_(engine), hub_(hub) {}
  Enlister(const Enlister&) = delete;
  Enlister& operator=(const Enlister&) = delete;

  // Makes the group of the two.
  Status open();
  // Asks the hub to add up for this communicator; the number under which to ask for the answer.
  // `members`: global, hubs last.
  uint64_t enlist(uint32_t comm, const std::vector<int>& members,
                  const schedule::AggregationTree& tree);
  // This member and those below it take no part in it any more. Nobody waits for the answer.
  void leave(uint32_t comm);
  // Once for each number.
  std::optional<Status> take_answer(uint64_t number);
  // After the engine.
  void run();
  // Ok, or why nothing can be asked any more: in the hub's words where it said some.
  const Status& failure() const { return desk_->failed; }

 private:
  struct Request {
    uint64_t number = 0;  // 0: nobody wants the answer
    std::string order;
    std::string roll;     // empty: no roll follows
  };
  Status post(std::string& bytes, bool is_send, uint32_t tag, Work& work);
  Status send(Request& request);
  void answer(const Status& outcome);

  Engine& engine_;
  const int hub_;
  Group* desk_ = nullptr;
  uint64_t next_number_ = 1;
  std::deque<Request> requests_;  // the first is under way when `asked_`
  bool asked_ = false;
  Status broken_;  // why nothing can be asked any more
  std::string reply_;
  Work order_sent_;
  Work roll_sent_;
  Work replied_;
  std::map<uint64_t, Status> answers_;
};

// A group whose rails take what they can: what enlisting, hubs, their sessions and councils need.
// `tree`: of a group with hubs.
Result<Group*> make_plain_group(Engine& engine, uint32_t comm, std::vector<int> members,
                                schedule::AggregationTree tree, const schedule::CostTable& costs = {});

}  // namespace nezha::engine
