// Protected streams in a program that is linked with them, and opens no module.
#include "protection/protection_module.h"

namespace {

[[maybe_unused]] const bool kRegistered = [] {
  nezha::register_module("protection", nezha::transport::protection_module());
  return true;
}();

}  // namespace
