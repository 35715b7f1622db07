// The module libnezha_proof.so: what the option algorithm_file opens (base/module.h).
#include "base/module.h"
#include "proof/algorithm_file.h"

extern "C" __attribute__((visibility("default"))) const nezha::Module* nezha_module(
    const nezha::ModuleHost* host) {
  static const nezha::Module module{nezha::schedule::AlgorithmReader::kInterface,
                                    &nezha::schedule::algorithm_reader(), nezha::log::set_level};
  return nezha::join_host(*host) ? &module : nullptr;
}
