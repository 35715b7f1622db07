// Algorithms from files in a program that is linked with their proof, and opens no module.
#include "base/module.h"
#include "proof/algorithm_file.h"

namespace {

[[maybe_unused]] const bool kRegistered = [] {
  static const nezha::Module module{nezha::schedule::AlgorithmReader::kInterface,
                                    &nezha::schedule::algorithm_reader(), nezha::log::set_level};
  nezha::register_module("proof", module);
  return true;
}();

}  // namespace
