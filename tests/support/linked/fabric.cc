// Rails of the kind "ofi" in a program that is linked with them, and opens no module.
#include "fabric/fabric_kind.h"

namespace {

[[maybe_unused]] const bool kRegistered = [] {
  nezha::register_module("ofi", nezha::transport::fabric_module());
  return true;
}();

}  // namespace
