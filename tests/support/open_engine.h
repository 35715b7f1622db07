// OpenEngine: an engine whose parts a test may look at and call.
#pragma once

#include "engine/engine.h"

namespace nezha::testing {

class OpenEngine final : public engine::Engine {
 public:
  using engine::Engine::Engine;

  engine::BufferPool& pool() { return parts_.pool; }
  engine::Diagnostics& diagnostics() { return parts_.diagnostics; }
  engine::Failures& failures() { return parts_.failures; }
  const engine::GroupTable& groups() const { return parts_.groups; }
  engine::Losses& losses() { return parts_.losses; }
  engine::Transfers& transfers() { return parts_.transfers; }
  engine::Shrinker& shrinker() { return parts_.shrinker; }
  engine::Supervisor& supervisor() { return parts_.supervisor; }
};

}  // namespace nezha::testing
