// The module libnezha_queries.so: what nezha_query opens for questions of capi/queries.h (base/module.h).
#include "queries/queries.h"

extern "C" __attribute__((visibility("default"))) const nezha::Module* nezha_module(
    const nezha::ModuleHost* host) {
  return nezha::join_host(*host) ? &nezha::queries::queries_module() : nullptr;
}
