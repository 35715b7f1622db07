// Rails of the kind "ofi" in a program that is linked with them, and opens no module.
#include "fabric/fabric_kind.h"

namespace {

[[maybe_unused]] const bool kRegistered = [] {
  nezha::transport::register_rail_kind(nezha::transport::fabric_kind());
  return true;
}();

}  // namespace
