// Aggregation nodes in a program that is linked with them, and opens no module.
#include "aggregation/aggregation_module.h"

namespace {

[[maybe_unused]] const bool kRegistered = [] {
  nezha::register_module("aggregation", nezha::aggregation::aggregation_module());
  return true;
}();

}  // namespace
