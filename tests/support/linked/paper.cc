// The policy `table` in a program that is linked with it, and opens no module.
#include "base/module.h"
#include "paper/table.h"

namespace {

[[maybe_unused]] const bool kRegistered = [] {
  nezha::register_module("table", &nezha::control::table_policy());
  return true;
}();

}  // namespace
