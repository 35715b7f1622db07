// EngineOptions: what an engine and its parts are told when they are made.
//
// Contract: a plain record; does not change afterwards.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "schedule/file_algorithm.h"

namespace nezha::engine {

struct EngineOptions {
  int rank = 0;                 // global
  int world_size = 1;
  uint32_t rails = 1;           // of this rank
  uint64_t chunk_bytes = 256 * 1024;
  uint64_t credit_bytes = 8 * 1024 * 1024;
  uint64_t ack_bytes = 1024 * 1024;  // received data is acknowledged at least this often
  // Messages up to this size are copied, so that completion does not wait for their acknowledgement.
  uint64_t inline_bytes = 16 * 1024;
  Nanoseconds peer_deadline = 30 * kSecond;
  // A peer is lost when nothing has answered for its host for so long.
  Nanoseconds outage = 10 * kSecond;
  // True for a node, whose peers are not trusted with its memory: it keeps nothing for a
  // communicator that it does not know, frames are as long as chunks at most, and few messages
  // wait.
  bool serves = false;
  std::vector<std::string> rail_names = {};  // of this rank's rails, for errors; may be empty
  // The schedules of Algorithm::file; null where the user has none.
  std::shared_ptr<const schedule::FileAlgorithm> file_algorithm = {};
  // By rail, the rate that is assumed until it is measured; empty: kNominalBytesPerS.
  std::vector<double> nominal_bytes_per_s = {};
  int streams_per_rail = 1;
  // By global rank: equal for ranks that share a host. Empty: each is alone.
  std::vector<int> host_of = {};
  // Floating point is added up in an order that follows from the operation and the number of ranks alone.
  bool fixed_order = false;
  // A part of a partitioned job goes on by shrink() only with a majority; false: every part does.
  bool majority = true;
  // Peers get connections when they are first needed; false: all have them from the start.
  bool on_demand = false;

  // The nominal rate of one connection on that rail.
  double nominal_of(size_t rail) const {
    const bool known = rail < nominal_bytes_per_s.size();
    return (known ? nominal_bytes_per_s[rail] : kNominalBytesPerS) / streams_per_rail;
  }
};

}  // namespace nezha::engine
