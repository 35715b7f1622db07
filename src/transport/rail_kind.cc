#include "transport/rail_kind.h"

#include <mutex>

#include "base/module.h"

namespace nezha::transport {
namespace {

std::mutex& mutex() {
  static std::mutex one;
  return one;
}

std::vector<const RailKind*>& registered() {
  static std::vector<const RailKind*> all;
  return all;
}

}  // namespace

void register_rail_kind(const RailKind& kind) {
  const std::lock_guard lock(mutex());
  registered().push_back(&kind);
}

Result<const RailKind*> rail_kind(std::string_view name) {
  {
    const std::lock_guard lock(mutex());
    for (const RailKind* kind : registered()) {
      if (kind->name() == name) return kind;
    }
  }
  auto module = open_module(name);
  if (!module) return module.status();
  return static_cast<const RailKind*>(*module);
}

}  // namespace nezha::transport
