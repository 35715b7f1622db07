// MemberConnector: the connections of one job session: takes over those that the listener has
// authenticated, dials nodes above when it is told to, and makes no connection again by itself.
//
// Contract: transport/transport.h. A job's tree that lost a connection begins again as another session,
// so the supervisor's requests to dial are ignored. Most children do not listen anywhere: a child counts
// as answering until the engine's peer deadline ends its silence.
#pragma once

#include <deque>
#include <memory>
#include <utility>

#include "transport/connect/connector.h"

namespace nezha::aggregation {

class MemberConnector final : public transport::ConnectionManager {
 public:
  MemberConnector(std::unique_ptr<transport::Connector> sockets, transport::JoinEvents& events)
      : sockets_(std::move(sockets)), events_(events) {}

  void admit(std::unique_ptr<transport::Handshake> member) { sockets_->take_over(std::move(member)); }
  void dial_parent(const transport::Path& path, Nanoseconds patience) {
    sockets_->dial(path, 1, patience);
  }

  void dial(const transport::Path&, uint32_t, Nanoseconds) override {}
  void probe(const transport::Path& path, Nanoseconds) override { probes_.push_back(path); }
  void run(Nanoseconds now) override {
    for (size_t left = probes_.size(); left > 0 && !probes_.empty(); --left) {
      const transport::Path path = probes_.front();
      probes_.pop_front();
      events_.on_probed(path, transport::Probed::host);
    }
    sockets_->run(now);
  }
  Nanoseconds next_wakeup() const override {
    return probes_.empty() ? sockets_->next_wakeup() : 0;
  }
  void stop() override {
    probes_.clear();
    sockets_->stop();
  }

 private:
  const std::unique_ptr<transport::Connector> sockets_;
  transport::JoinEvents& events_;
  std::deque<transport::Path> probes_;
};

}  // namespace nezha::aggregation
