// The policy `table` in a program that is linked with it, and opens no module.
#include "paper/table.h"

namespace {

[[maybe_unused]] const bool kRegistered = [] {
  nezha::register_module("table", nezha::rails::table_module());
  return true;
}();

}  // namespace
