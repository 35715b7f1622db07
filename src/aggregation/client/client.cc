#include "aggregation/client/client.h"

#include <algorithm>
#include <new>

#include "base/log.h"
#include "transport/tcp/tcp_address.h"

namespace nezha::context {

namespace {

uint64_t name_of(const schedule::Topology& topology) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char byte : schedule::to_json(topology)) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  }
  return hash;
}

}  // namespace

HubLink::HubLink(progress::Loop& loop, engine::Engine& hosts, HubLinkRequest request)
    : loop_(loop), hosts_(hosts), request_(std::move(request)),
      topology_name_(name_of(request_.topology)) {}

HubLink::~HubLink() { drop("this rank leaves"); }

bool HubLink::has_work() const {
  const bool moving = session_ != nullptr && session_->engine().has_work();
  return moving || std::any_of(users_.begin(), users_.end(), [](const HubUser* user) {
           return user->has_work();
         });
}

void HubLink::dial(Nanoseconds now) {
  dial_at_ = kNever;
  was_up_ = false;
  HubSessionRequest request = request_.session;
  request.session = session_number_;
  auto session = HubSession::create(loop_, request);
  if (session) {
    session_ = std::move(*session);
    return;
  }
  last_reason_ = session.status().message();
  ++failures_;
  dial_at_ = now + kPauseMax;
}

void HubLink::drop(const std::string& why) {
  if (session_ == nullptr) return;
  for (HubUser* user : users_) user->on_session_lost();
  last_reason_ = session_->reason().empty() ? why : session_->reason();
  if (was_up_) {
    ++lost_;
    ++session_number_;
    failures_ = 0;
    NEZHA_LOG(info, "aggregation", "rank %d: the aggregation node %s:%u is out of reach (%s); host rails "
              "carry everything until it is back", request_.session.rank,
              request_.session.node.address.c_str(),
              transport::ports_of(request_.session.node).device, last_reason_.c_str());
  } else {
    ++failures_;
  }
  past_ += traffic();
  session_.reset();
  dial_at_ = loop_.clock().now() + std::min(kPauseMax, kPauseMin << std::min(failures_, 6));
}

transport::ConnectionCounters HubLink::traffic() const {
  transport::ConnectionCounters sum;
  if (session_ == nullptr) return sum;
  for (const auto& links : session_->engine().peers()) {
    if (links == nullptr) continue;
    for (const engine::Link& link : links->links()) {
      sum += link.connection->counters();
      sum += link.past;
    }
  }
  return sum;
}

void HubLink::follow(uint32_t session_number) {
  if (session_number <= session_number_) return;
  drop("other ranks have begun a new session");
  session_number_ = session_number;
  dial_at_ = 0;
}

bool HubLink::run(Nanoseconds now) {
  bool output = hosts_.run(now);
  if (session_ == nullptr && now >= dial_at_) dial(now);
  if (session_ != nullptr) {
    output |= session_->run(now);
    if (session_->state() == HubSession::State::lost) {
      drop("the connection ended");
    } else if (!was_up_ && session_->state() == HubSession::State::up) {
      was_up_ = true;
      failures_ = 0;
      ++sessions_;
    }
  }
  for (HubUser* user : users_) user->run(now);
  return output;
}

Nanoseconds HubLink::next_wakeup() const {
  const Nanoseconds session = session_ == nullptr ? dial_at_ : session_->next_wakeup();
  const bool due = std::any_of(users_.begin(), users_.end(), [](const HubUser* user) {
    return user->is_due();
  });
  return due ? 0 : std::min(hosts_.next_wakeup(), session);
}

void HubLink::out_of_memory() noexcept {
  hosts_.out_of_memory();
  if (session_ != nullptr) session_->out_of_memory();
}

void HubLink::write(JsonWriter& json) const {
  json.field("node", request_.session.node.address);
  json.field("port", transport::ports_of(request_.session.node).device);
  transport::ConnectionCounters sum = past_;
  sum += traffic();
  json.field("device", request_.session.rail.name);
  json.field("bytes_sent", sum.bytes_sent).field("bytes_received", sum.bytes_received);
  json.field("state", session_ == nullptr ? "away" : is_up() ? "up" : "dialling");
  json.field("sessions", sessions_).field("sessions_lost", lost_).field("last_reason", last_reason_);
  json.key("communicators").begin_array();
  for (const HubUser* user : users_) {
    json.begin_object();
    user->write(json);
    json.end_object();
  }
  json.end_array();
}

}  // namespace nezha::context
