// The module libnezha_protection.so: what `tls=on` and `integrity=on` open (base/module.h).
#include "protection/protection_module.h"

extern "C" __attribute__((visibility("default"))) const nezha::Module* nezha_module(
    const nezha::ModuleHost* host) {
  return nezha::join_host(*host) ? &nezha::transport::protection_module() : nullptr;
}
