// The module libnezha_ofi.so: what `rails=ofi:...` opens (base/module.h).
#include "fabric/fabric_kind.h"

extern "C" __attribute__((visibility("default"))) const nezha::Module* nezha_module(
    const nezha::ModuleHost* host) {
  return nezha::join_host(*host) ? &nezha::transport::fabric_module() : nullptr;
}
