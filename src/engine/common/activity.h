// Activity: what owns requests and landings: an operation, or the messages of a group.
//
// Contract: touched only with the loop's progress lock held. Requests and landings name it as
// `static_cast<Activity*>`, so that the engine need not know which it is.
#pragma once

#include <cstdint>

#include "transport/connection.h"

namespace nezha::engine {

// The type of a landing's owner (transport::Landing::kind): Activity or EarlyFrame.
enum LandingKind : uint32_t { kActivityLanding = 1, kEarlyLanding = 2 };

// The landing of a frame that breaks the protocol.
inline constexpr transport::Landing kRefused = {.refused = true};

class Activity {
 public:
  virtual ~Activity() = default;
  // The peer acknowledged one of our requests that name the caller's memory, or is gone for good.
  virtual void released(transport::WorkRequest& request) = 0;
  // The payload of a landing that we gave out is complete.
  virtual void landed(const wire::FrameHeader& header, const transport::Landing& landing) = 0;
  // The connection died in the middle of a landing: the transfer will come again.
  virtual void landing_lost(const transport::Landing& landing) = 0;
  // A gate gave rails to the message whose first transfer this is: its other transfers follow.
  virtual void admitted(const transport::WorkRequest&) {}
};

}  // namespace nezha::engine
