// Hierarchy: the algorithms for hosts with several ranks. Each is composed of the catalog's: a phase
// inside every host, one between hosts, one inside again (composition.h). One list, as the catalog is.
//
// Contract: pure, any thread. The schedules are right for any hosts, also for one rank each or all on
// one; plans choose them only where Hosts::is_mixed().
#pragma once

#include <span>
#include <string_view>

#include "schedule/catalog.h"
#include "schedule/hosts.h"

namespace nezha::schedule {

// The costs of an algorithm among hosts. Messages that follow each other are counted; bytes are
// shares of the operation's.
struct HostTerms {
  double steps = 0;          // messages between hosts
  double inside_steps = 0;   // messages inside a host
  double bytes_factor = 0;   // sent to other hosts by the busiest host
  double inside_bytes = 0;   // sent inside its host by the busiest rank
  double reduce_factor = 0;  // reduced by the busiest rank
  double link_use = 1;       // as in CostTerms
  double passed_on = 0;      // taken from its host and sent on by the busiest rank
};

struct HierarchyEntry {
  Algorithm algorithm;
  Collective collective;
  std::string_view summary;
  Schedule (*build)(const Hosts& hosts, int rank, int root);
  Shape (*shape)(const Hosts& hosts);
  HostTerms (*terms)(const Hosts& hosts);
  // `owner`: the rank of a host that passes a slice on between hosts; null: phases inside hosts are
  // messages. `collects` and `hands_out`: what a host whose ranks share memory does inside
  // (InsidePhases).
  int (*owner)(const Hosts& hosts, int host, uint32_t slice, int root) = nullptr;
  bool collects = false;
  bool hands_out = false;
};

std::span<const HierarchyEntry> hierarchies();
const HierarchyEntry* find_hierarchy(Collective collective, Algorithm algorithm);

// The part of a schedule, built by `entry`, that passes between hosts, for a rank whose host has
// shared memory for the rest. The steps that remain have their peers and tags, so hosts with memory
// and hosts without it understand each other.
Schedule between_hosts(const HierarchyEntry& entry, const Hosts& hosts, Schedule schedule);

// The costs among hosts of an algorithm of the catalog, which knows nothing of hosts.
HostTerms spread(const AlgorithmEntry& entry, const Hosts& hosts);

}  // namespace nezha::schedule
