#include "planted/cases.h"

#include <random>
#include <sstream>

#include "planted/hierarchy.h"
#include "planted/memory.h"
#include "planted/phases.h"
#include "planted/trust.h"
#include "simulation/hostile.h"
#include "simulation/nemesis.h"
#include "simulation/recovery.h"
#include "simulation/scenario.h"

namespace nezha::simulation {

namespace {

const std::string kNoCase = "there is no such case";

std::string run_recovery(const std::string& check, uint64_t seed) {
  for (const RecoveryCheck& each : recovery_checks()) {
    if (each.name == check) return each.run(seed);
  }
  return kNoCase;
}

std::string run_nemesis(const std::string& shape, uint64_t seed) {
  for (const Nemesis& each : nemeses()) {
    if (each.name == shape) return each.run(seed).wrong;
  }
  return kNoCase;
}

size_t point_named(const std::string& name) {
  const auto& points = protocol_points();
  size_t index = 0;
  while (index < points.size() && points[index].name != name) ++index;
  return index;
}

}  // namespace

std::string Cases::name(uint64_t number) {
  const uint64_t seed = number / 10 + 1;
  switch (number % 10) {
    case 0: return "scenario " + std::to_string(seed);
    case 1: {
      const auto checks = recovery_checks();
      return "recovery " + std::string(checks[seed % checks.size()].name) + " " + std::to_string(seed);
    }
    case 2: return "hostile " + std::to_string(seed);
    case 3:
    case 4: {
      const auto shapes = nemeses();
      const uint64_t turn = 2 * seed + number % 10 - 3;
      return "nemesis " + std::string(shapes[turn % shapes.size()].name) + " " +
             std::to_string(turn / shapes.size());
    }
    case 5: return "late_write " + std::to_string(seed);
    case 6: return "trust " + std::to_string(seed);
    case 7: {
      constexpr const char* kSuites[] = {"memory ", "hierarchy ", "phases "};
      return kSuites[seed % 3] + std::to_string(seed / 3 + 1);
    }
    default: {
      const auto& points = protocol_points();
      std::mt19937_64 random(number);
      const std::string first = points[random() % points.size()].name;
      const std::string second = points[random() % points.size()].name;
      const std::string skip = std::to_string(random() % 4);
      const std::string blow(name_of(static_cast<Blow>(random() % kBlows)));
      return "points " + first + " " + second + " skip " + skip + " blow " + blow + " seed " +
             std::to_string(number);
    }
  }
}

std::string Cases::run_points(const std::string& name) {
  if (!points_) points_.emplace();
  if (!points_->wrong().empty()) return "without faults: " + points_->wrong();
  std::istringstream text(name);
  std::string word, first, second, blow;
  PointCase at;
  text >> word >> first >> second >> word >> at.skip >> word >> blow >> word >> at.seed;
  at.first = point_named(first);
  at.second = point_named(second);
  uint64_t kind = 0;
  while (kind < kBlows && name_of(static_cast<Blow>(kind)) != blow) ++kind;
  at.blow = static_cast<Blow>(kind);
  const size_t all = protocol_points().size();
  if (!text || at.first == all || at.second == all || kind == kBlows) return kNoCase;
  return points_->run(at).wrong;
}

std::string Cases::run(const std::string& name) {
  std::istringstream text(name);
  std::string suite, check;
  uint64_t seed = 0;
  text >> suite;
  if (suite == "points") return run_points(name);
  if (suite == "recovery" || suite == "nemesis") text >> check;
  text >> seed;
  if (!text) return kNoCase;
  if (suite == "scenario") return simulation::run(random_scenario(seed)).wrong;
  if (suite == "late_write") return simulation::run(late_write_scenario(seed)).wrong;
  if (suite == "trust") return run_trust(seed);
  if (suite == "memory") return run_memory(seed);
  if (suite == "phases") return run_phases(seed);
  if (suite == "hierarchy") return run_hierarchy(seed);
  if (suite == "hostile") return run_hostile(seed).wrong;
  if (suite == "nemesis") return run_nemesis(check, seed);
  return suite == "recovery" ? run_recovery(check, seed) : kNoCase;
}

}  // namespace nezha::simulation
