#include "transport/rail_kind.h"

#include "base/module.h"

namespace nezha::transport {

Result<const RailKind*> rail_kind(std::string_view name) {
  auto kind = open_module(name, RailKind::kInterface);
  if (!kind) return kind.status();
  return static_cast<const RailKind*>(*kind);
}

}  // namespace nezha::transport
