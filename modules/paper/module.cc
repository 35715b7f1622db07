// The module libnezha_table.so: what `policy=table` opens (base/module.h).
#include "paper/table.h"

extern "C" __attribute__((visibility("default"))) const nezha::Module* nezha_module(
    const nezha::ModuleHost* host) {
  return nezha::join_host(*host) ? &nezha::rails::table_module() : nullptr;
}
