// Message policies in a program that is linked with them, and opens no module.
#include "allocation/policy_gate.h"

namespace {

[[maybe_unused]] const bool kRegistered = [] {
  nezha::register_module("allocation", nezha::engine::gate_module());
  return true;
}();

}  // namespace
