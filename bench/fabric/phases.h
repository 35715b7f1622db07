// The things that raw_fabric does, each as seen by the sending and by the receiving half. The
// halves meet before each, so that no write of one phase can be taken for one of the next.
#pragma once

#include <cstdint>
#include <vector>

#include "endpoint.h"
#include "options.h"
#include "side_channel.h"

namespace nezha::bench {

struct Results {
  std::vector<double> write_seconds;         // per repeat: all iterations, until the last has arrived
  std::vector<double> exchange_seconds;      // the same both ways at once, until both have everything
  std::vector<double> sum_seconds;           // and each slot added to other memory when it arrives
  std::vector<double> write_latency_seconds;  // per repeat: mean of half a round trip
  std::vector<double> send_latency_seconds;
  uint64_t verified = 0;
};

// Both return after the other half has finished, too; the receiver's results are empty.
Results run_sender(Endpoint& endpoint, SideChannel& side, const Options& options);
void run_receiver(Endpoint& endpoint, SideChannel& side, const Options& options);

}  // namespace nezha::bench
