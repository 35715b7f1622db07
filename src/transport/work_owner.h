// WorkOwner: what requests and landings belong to. In the engine that is a collective, or the messages of
// a group.
//
// Contract: called by the engine only, with the loop's progress lock held; a connection compares owners
// and forgets them. An owner takes back its requests and landings before it ends.
#pragma once

#include "wire/frame.h"

namespace nezha::transport {

struct Landing;
struct WorkRequest;

class WorkOwner {
 public:
  virtual ~WorkOwner() = default;
  // The peer acknowledged one of our requests that name the caller's memory, or is gone for good.
  virtual void released(WorkRequest& request) = 0;
  // The payload of a landing that we gave out is complete.
  virtual void landed(const wire::FrameHeader& header, const Landing& landing) = 0;
  // The connection died in the middle of a landing: the transfer will come again.
  virtual void landing_lost(const Landing& landing) = 0;
  // The message whose first transfer this is was given its rails (`turn`): its other transfers follow.
  virtual void admitted(const WorkRequest&) {}
};

}  // namespace nezha::transport
