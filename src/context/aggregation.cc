#include "context/aggregation.h"

#include "base/module.h"

namespace nezha::context {

Result<const AggregationModule*> aggregation_module() {
  auto module = open_module(AggregationModule::kName, AggregationModule::kInterface);
  if (!module) return module.status();
  return static_cast<const AggregationModule*>(*module);
}

}  // namespace nezha::context
