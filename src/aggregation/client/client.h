// HubLink: a rank's way to the aggregation node: one session after another, shared by the communicators.
//
// Contract
//   Owner    Context; every call with the loop's baton held. It is the loop's client and drives the
//            rank's own engine, too, so that an operation that uses both ends in the turn in which its
//            last part does.
//   Life     a session that is lost takes its operations with it: whoever has some is told
//            (`on_session_lost`) before the session is gone, and a new one is dialled after a pause.
//   Numbers  ranks whose sessions have the same number meet at the node. A rank that lost a session goes
//            on to the next number; one that learns of a higher number follows (`follow`).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "aggregation/client/session.h"
#include "aggregation/topology.h"
#include "base/json.h"
#include "engine/engine.h"
#include "progress/loop.h"

namespace nezha::context {

// Someone who has operations in a session.
class HubUser {
 public:
  virtual ~HubUser() = default;
  virtual void run(Nanoseconds now) = 0;
  virtual bool has_work() const = 0;
  // Something has ended that `run` has not looked at.
  virtual bool is_due() const = 0;
  // Its figures, as fields of the object that is open.
  virtual void write(JsonWriter& json) const = 0;
  // Its groups in the session must go now.
  virtual void on_session_lost() = 0;
};

struct HubLinkRequest {
  HubSessionRequest session;    // but for the number of the session
  schedule::Topology topology;  // as the node said
  uint32_t rails_beside = 0;    // this rank's rails on the device that leads to the node, as bits
  double share = -1;            // configured; negative: learned
};

class HubLink final : public progress::LoopClient {
 public:
  HubLink(progress::Loop& loop, engine::Engine& hosts, HubLinkRequest request);
  ~HubLink() override;

  engine::Engine& hosts() { return hosts_; }
  const HubLinkRequest& request() const { return request_; }
  // Null when there is none; it may still be dialling.
  HubSession* session() { return session_.get(); }
  bool is_up() const { return session_ != nullptr && session_->state() == HubSession::State::up; }
  // No answer is to be expected soon.
  bool is_hopeless() const { return session_ == nullptr && failures_ > 0; }
  // Equal for ranks that take the same topology for it.
  uint64_t topology_name() const { return topology_name_; }
  uint32_t session_number() const { return session_number_; }
  void follow(uint32_t session_number);

  void add(HubUser& user) { users_.push_back(&user); }
  void remove(HubUser& user) { std::erase(users_, &user); }
  bool has_work() const;
  void write(JsonWriter& json) const;
  // Says goodbye to the node.
  void leave() { drop("this rank leaves"); }

  // progress::LoopClient
  bool run(Nanoseconds now) override;
  Nanoseconds next_wakeup() const override;
  void out_of_memory() noexcept override;

 private:
  static constexpr Nanoseconds kPauseMin = 100 * kMillisecond;
  static constexpr Nanoseconds kPauseMax = 5 * kSecond;

  void dial(Nanoseconds now);
  void drop(const std::string& why);
  // Of the session of now.
  transport::ConnectionCounters traffic() const;

  progress::Loop& loop_;
  engine::Engine& hosts_;
  const HubLinkRequest request_;
  const uint64_t topology_name_;
  std::vector<HubUser*> users_;
  std::unique_ptr<HubSession> session_;
  uint32_t session_number_ = 1;
  bool was_up_ = false;         // the session of now
  uint64_t sessions_ = 0;       // that came up
  uint64_t lost_ = 0;           // of these
  transport::ConnectionCounters past_;  // of the sessions before this one
  int failures_ = 0;            // dials without success since
  Nanoseconds dial_at_ = 0;
  std::string last_reason_;
};

}  // namespace nezha::context
