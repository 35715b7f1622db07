// The module libnezha_aggregation.so: what `aggregator=...` opens (base/module.h).
#include "aggregation/aggregation_module.h"

extern "C" __attribute__((visibility("default"))) const nezha::Module* nezha_module(
    const nezha::ModuleHost* host) {
  return nezha::join_host(*host) ? &nezha::aggregation::aggregation_module() : nullptr;
}
