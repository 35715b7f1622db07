#include "planted/hierarchy.h"

#include <random>
#include <vector>

#include "proof/verifier.h"
#include "schedule/hierarchy.h"

namespace nezha::simulation {
namespace {

using schedule::HierarchyEntry;
using schedule::Hosts;
using schedule::Schedule;

// What the plan takes from the shape is what the steps do.
std::string check_shape(const HierarchyEntry& entry, const Hosts& hosts,
                        const std::vector<Schedule>& ranks, const schedule::Proof& proof) {
  const schedule::Shape shape = entry.shape(hosts);
  if (shape.slices != ranks[0].slices()) return "its shape has another number of slices";
  if (!shape.exchanges && !proof.consumes_on_arrival) return "a reduction waits, and its shape denies it";
  if (proof.pair_load > shape.pair_load + 1e-9) return "a pair sends more in a chunk than its shape says";
  if (shape.exchanges && proof.pair_turn > shape.pair_turn + 1e-9) {
    return "a pair sends more in a turn than its shape says";
  }
  return "";
}

std::string check(const HierarchyEntry& entry, const Hosts& hosts, int root) {
  std::vector<Schedule> ranks;
  for (int rank = 0; rank < hosts.ranks(); ++rank) ranks.push_back(entry.build(hosts, rank, root));
  const auto proof = schedule::verify(ranks);
  const std::string wrong =
      proof ? check_shape(entry, hosts, ranks, proof.value()) : proof.status().to_string();
  if (wrong.empty()) return "";
  return std::string(name_of(entry.collective)) + " by " + std::string(name_of(entry.algorithm)) + ": " +
         wrong;
}

}  // namespace

std::string run_hierarchy(uint64_t seed) {
  std::mt19937_64 random(seed);
  const uint64_t hosts_count = 1 + random() % 4;
  std::vector<int> host_of;
  for (uint64_t host = 0; host < hosts_count; ++host) {
    host_of.insert(host_of.end(), 1 + random() % (seed % 4 == 0 ? 10 : 5), static_cast<int>(host));
  }
  const bool is_in_order = random() % 2 == 0;
  for (size_t i = host_of.size(); i > 1 && !is_in_order; --i) {
    std::swap(host_of[i - 1], host_of[random() % i]);
  }
  const Hosts hosts(host_of);
  const int root = static_cast<int>(random() % host_of.size());
  for (const HierarchyEntry& entry : schedule::hierarchies()) {
    const Collective kind = entry.collective;
    const bool has_root = kind == Collective::broadcast || kind == Collective::reduce;
    std::string wrong = check(entry, hosts, has_root ? root : 0);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace nezha::simulation
