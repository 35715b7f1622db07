// Parts: the parts of one engine, made in the order in which they use each other.
//
// Contract: owned by an Engine; progress lock held. Each part names in its header what it uses of those
// before it.
#pragma once

#include <utility>

#include "base/clock.h"
#include "engine/common/buffer_pool.h"
#include "engine/common/flight_log.h"
#include "engine/common/options.h"
#include "engine/endpoint/peer_table.h"
#include "engine/flow/credit_accounts.h"
#include "engine/flow/early_frames.h"
#include "engine/flow/transfers.h"
#include "engine/group/agenda.h"
#include "engine/group/failures.h"
#include "engine/group/group_table.h"
#include "engine/group/parked_budget.h"
#include "engine/group/progress_table.h"
#include "engine/group_keeper.h"
#include "engine/membership/losses.h"
#include "engine/membership/missing_connections.h"
#include "engine/membership/shrink.h"
#include "engine/membership/supervisor.h"
#include "engine/observer/diagnostics.h"
#include "engine/operation/operations.h"

namespace nezha::engine {

struct Parts {
  Parts(const Clock& clock_of_loop, EngineOptions given)
      : clock(clock_of_loop), options(std::move(given)) {}
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  const Clock& clock;
  const EngineOptions options;
  BufferPool pool;
  Agenda agenda{options.world_size};
  PeerTable peers{options, clock};
  GroupTable groups;
  ParkedBudget parked{options, GroupKeeper::kBytesOfGroup};
  FlightLog flight{clock};
  ProgressTable progress{options.world_size};
  Failures failures{options, groups, peers, pool, agenda};
  Transfers transfers{options, clock, peers, pool, agenda};
  CreditAccounts credit{options, clock, groups, peers, transfers, agenda};
  EarlyFrames early{groups, peers, pool, parked, failures};
  Operations operations{clock, groups, peers, flight, progress,
                        {options, pool, transfers, credit, early, failures, agenda}};
  Diagnostics diagnostics{groups, clock, flight, progress};
  GroupKeeper keeper{{options, clock, pool, agenda, peers, groups, parked, flight, failures, transfers,
                      early, operations}};
  Shrinker shrinker{{options, groups, peers, failures, keeper, agenda}};
  Losses losses{options, groups, peers, failures, transfers, shrinker, agenda};
  MissingConnections missing{options, clock, peers, losses};
  Supervisor supervisor{{options, clock, peers, transfers, groups, failures, losses, flight, diagnostics,
                         shrinker, missing}};
};

}  // namespace nezha::engine
