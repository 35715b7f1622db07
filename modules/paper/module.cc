// The module libnezha_table.so: what `policy=table` opens (base/module.h). Policies log nothing.
#include "base/module.h"
#include "paper/table.h"

extern "C" __attribute__((visibility("default"))) const void* nezha_module(
    const nezha::ModuleHost* host) {
  if (std::string_view(host->version) != nezha::kVersion) return nullptr;
  return &nezha::control::table_policy();
}
