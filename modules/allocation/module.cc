// The module libnezha_allocation.so: what a `message_policy` other than `pull` opens (base/module.h).
#include "allocation/policy_gate.h"

extern "C" __attribute__((visibility("default"))) const nezha::Module* nezha_module(
    const nezha::ModuleHost* host) {
  return nezha::join_host(*host) ? &nezha::engine::gate_module() : nullptr;
}
