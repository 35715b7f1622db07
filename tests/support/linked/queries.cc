// The questions of capi/queries.h in a program that is linked with their answers, and opens no module.
#include "queries/queries.h"

namespace {

[[maybe_unused]] const bool kRegistered = [] {
  nezha::register_module("queries", nezha::queries::queries_module());
  return true;
}();

}  // namespace
