// The module libnezha_ofi.so: what `rails=ofi:...` opens (base/module.h).
#include "base/log_sink.h"
#include "base/module.h"
#include "fabric/fabric_kind.h"

extern "C" __attribute__((visibility("default"))) const void* nezha_module(
    const nezha::ModuleHost* host) {
  if (std::string_view(host->version) != nezha::kVersion) return nullptr;
  nezha::log::set_level(host->log_level());
  nezha::log::set_sink(host->log);
  return &nezha::transport::fabric_kind();
}
