#include "aggregation/client/client.h"

#include <algorithm>
#include <new>

#include "aggregation/client/group.h"
#include "base/log.h"
#include "base/number_hash.h"
#include "transport/tcp/tcp_address.h"

namespace nezha::aggregation {

namespace {

uint64_t name_of(const Topology& topology) {
  NumberHash hash;
  for (const char byte : to_json(topology)) hash.add(static_cast<uint8_t>(byte));
  return hash.value();
}

}  // namespace

NodeClient::NodeClient(progress::Loop& loop, const Hosts& hosts, NodeClientOptions options)
    : loop_(loop), hosts_(hosts), options_(std::move(options)),
      topology_name_(name_of(options_.topology)) {}

NodeClient::~NodeClient() { drop("this rank leaves"); }

Result<std::unique_ptr<AggregationGroup>> NodeClient::add(engine::Group& group) {
  auto made = NodeGroup::create(*this, group);
  if (!made) return made.status();
  return std::unique_ptr<AggregationGroup>(std::move(*made));
}

bool NodeClient::has_work() const {
  const bool moving = session_ != nullptr && session_->has_work();
  return moving || std::any_of(groups_.begin(), groups_.end(), [](const NodeGroup* group)
                                   NEZHA_REQUIRES_LOCK { return group->has_work(); });
}

void NodeClient::dial(Nanoseconds now) {
  dial_at_ = kNever;
  was_up_ = false;
  NodeSessionRequest request = options_.session;
  request.session = session_number_;
  auto session = NodeSession::create(loop_, request);
  if (session) {
    session_ = std::move(*session);
    return;
  }
  last_reason_ = session.status().message();
  ++failures_;
  dial_at_ = now + kPauseMax;
}

void NodeClient::drop(const std::string& why) {
  if (session_ == nullptr) return;
  for (NodeGroup* group : groups_) group->on_session_lost();
  last_reason_ = session_->reason().empty() ? why : session_->reason();
  if (was_up_) {
    ++lost_;
    ++session_number_;
    failures_ = 0;
    NEZHA_LOG(info, "aggregation", "rank %d: the aggregation node %s:%u cannot be reached (%s); host "
              "rails carry everything until it can", options_.session.rank,
              options_.session.node_rail.address.c_str(),
              transport::ports_of(options_.session.node_rail).device, last_reason_.c_str());
  } else {
    ++failures_;
  }
  past_ += session_->traffic();
  session_.reset();
  dial_at_ = now() + std::min(kPauseMax, kPauseMin << std::min(failures_, 6));
}

void NodeClient::follow(uint32_t session_number) {
  if (session_number <= session_number_) return;
  drop("other ranks have begun a new session");
  session_number_ = session_number;
  dial_at_ = 0;
}

bool NodeClient::run(Nanoseconds now) {
  bool output = hosts_.turn.run(now);
  if (session_ == nullptr && now >= dial_at_) dial(now);
  if (session_ != nullptr) {
    output |= session_->run(now);
    if (session_->state() == NodeSession::State::lost) {
      drop("the connection ended");
    } else if (!was_up_ && session_->state() == NodeSession::State::up) {
      was_up_ = true;
      failures_ = 0;
      ++sessions_;
    }
  }
  for (NodeGroup* group : groups_) group->run(now);
  return output;
}

Nanoseconds NodeClient::next_wakeup() const {
  const Nanoseconds session = session_ == nullptr ? dial_at_ : session_->next_wakeup();
  const bool due = std::any_of(groups_.begin(), groups_.end(), [](const NodeGroup* group)
                                   NEZHA_REQUIRES_LOCK { return group->is_due(); });
  return due ? 0 : std::min(hosts_.turn.next_wakeup(), session);
}

void NodeClient::out_of_memory() noexcept {
  hosts_.turn.out_of_memory();
  if (session_ != nullptr) session_->out_of_memory();
}

void NodeClient::write(JsonWriter& json) const {
  json.field("node", options_.session.node_rail.address);
  json.field("port", transport::ports_of(options_.session.node_rail).device);
  transport::ConnectionCounters sum = past_;
  if (session_ != nullptr) sum += session_->traffic();
  json.field("device", options_.session.rail.name);
  json.field("bytes_sent", sum.bytes_sent).field("bytes_received", sum.bytes_received);
  json.field("state", session_ == nullptr ? "away" : is_up() ? "up" : "dialling");
  json.field("sessions", sessions_).field("sessions_lost", lost_).field("last_reason", last_reason_);
  json.key("communicators").begin_array();
  for (const NodeGroup* group : groups_) {
    json.begin_object();
    group->write(json);
    json.end_object();
  }
  json.end_array();
}

}  // namespace nezha::aggregation
