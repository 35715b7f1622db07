// Arrivals: what arrives on the connections of an engine, and which part gets it.
//
// Contract: owned by the engine, progress lock held. A lost connection is an event: what it left
// unacknowledged goes to the peer's other connections under the same identities.
#pragma once

#include <cstdint>
#include <string>

#include "engine/parts.h"
#include "transport/connection.h"

namespace nezha::engine {

class Arrivals final : public transport::ConnectionEvents {
 public:
  explicit Arrivals(Parts& parts) : parts_(parts) {}

  uint64_t connections_lost() const { return connections_lost_; }

  // transport::ConnectionEvents
  transport::Landing on_frame(transport::Connection& connection,
                              const wire::FrameHeader& header) override;
  void on_landed(transport::Connection& connection, const wire::FrameHeader& header,
                 const transport::Landing& landing) override;
  void on_released(transport::Connection& connection, transport::WorkRequest& request) override;
  void on_credit(transport::Connection& connection, uint64_t comm, uint64_t credit) override {
    parts_.credit.credited(connection.peer, comm, credit);
  }
  uint64_t credit_to_tell(transport::Connection& connection, uint64_t comm) override {
    return parts_.credit.to_tell(connection.peer, comm);
  }
  void on_failure(transport::Connection& connection, const wire::FrameHeader& header,
                  const std::string& text) override;
  void on_output(transport::Connection& connection) override { parts_.agenda.send(connection.peer); }
  void on_room(transport::Connection& connection) override {
    parts_.transfers.on_room(parts_.peers.of(connection.peer));
  }
  void on_control(transport::Connection& connection, const wire::FrameHeader& header,
                  const std::string& payload) override;
  void on_down(transport::Connection& connection, transport::WorkQueue& unacknowledged,
               const Status& why, bool in_order) override;

 private:
  bool may_serve(const Group* group, const wire::FrameHeader& header) const;

  Parts& parts_;
  uint64_t connections_lost_ = 0;
};

}  // namespace nezha::engine
