#include "transport/rail_kind.h"

#include "base/module.h"

namespace nezha::transport {

Result<const RailKind*> rail_kind(std::string_view name) {
  auto module = open_module(name);
  if (!module) return module.status();
  return static_cast<const RailKind*>(*module);
}

}  // namespace nezha::transport
