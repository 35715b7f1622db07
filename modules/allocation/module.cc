#include "allocation/policy_gate.h"
#include "base/module.h"

extern "C" __attribute__((visibility("default"))) const void* nezha_module(
    const nezha::ModuleHost* host) {
  if (std::string_view(host->version) != nezha::kVersion) return nullptr;
  return &nezha::engine::policy_gates();
}
