// The module libnezha_redis.so: what a store address redis://... opens (base/module.h).
#include "redis/redis_module.h"

extern "C" __attribute__((visibility("default"))) const nezha::Module* nezha_module(
    const nezha::ModuleHost* host) {
  return nezha::join_host(*host) ? &nezha::rendezvous::redis_module() : nullptr;
}
