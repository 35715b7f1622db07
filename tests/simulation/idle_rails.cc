#include "simulation/idle_rails.h"

#include <algorithm>

namespace nezha::simulation {

void IdleRails::look(int rank) {
  for (const auto& links : world_.engine(rank).peers()) {
    if (links == nullptr) continue;
    for (const engine::Link& link : links->links()) {
      const int peer = links->peer();
      const PathName name{std::min(rank, peer), std::max(rank, peer), link.connection->rail};
      const Path& path = world_.network().path(name);
      const bool is_sound = path.slowness == 1 && path.extra_delay == 0 && !path.hole[0] && !path.hole[1];
      const bool is_idle = link.is_usable() && link.connection->backlog_bytes() == 0;
      const auto key = std::tuple(rank, links->peer(), link.connection->rail);
      if (!is_sound || !is_idle || !links->has_pending()) {
        since_.erase(key);
        continue;
      }
      const Nanoseconds since = since_.try_emplace(key, world_.now()).first->second;
      if (world_.now() - since <= kPatience || !wrong_.empty()) continue;
      wrong_ = "rank " + std::to_string(rank) + ": rail " + std::to_string(link.connection->rail) +
               " to rank " + std::to_string(peer) + " is up and idle for a second while transfers wait";
    }
  }
}

}  // namespace nezha::simulation
