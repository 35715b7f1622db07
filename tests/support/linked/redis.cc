// Stores in Redis servers in a program that is linked with them, and opens no module.
#include "redis/redis_module.h"

namespace {

[[maybe_unused]] const bool kRegistered = [] {
  nezha::register_module("redis", nezha::rendezvous::redis_module());
  return true;
}();

}  // namespace
