#include "transport/connect/stream_protection.h"

#include "base/module.h"

namespace nezha::transport {

Result<const StreamProtection*> stream_protection() {
  auto module = open_module("protection", StreamProtection::kInterface);
  if (!module) return module.status();
  return static_cast<const StreamProtection*>(*module);
}

}  // namespace nezha::transport
