// Modules: libraries with a part of Nezha that most jobs do not need, opened when a job asks for it.
//
// Contract: any thread. The module NAME is the file libnezha_NAME.so, looked for beside the file that
// this code is part of, then where the system's linker looks; once opened it stays. It has a copy of
// its own of what it uses of this library, so it gets the log of its host, at the level of the moment
// in which it is opened, and hands out objects with virtual functions. It is of its host's version, or
// it is refused. Errors: `unsupported`, with what to install.
#pragma once

#include <string>
#include <string_view>

#include "base/log.h"
#include "base/status.h"

namespace nezha {

// The process that opens a module, for the module.
struct ModuleHost {
  const char* version;
  log::Level (*log_level)();
  void (*log)(log::Level level, int rank, const char* subsystem, const char* text);  // a log::Sink
};

// Exported by every module as `nezha_module`. What it returns is the module's own; null: another version.
using ModuleEntry = const void* (*)(const ModuleHost* host);

extern const char* const kVersion;

// Opens the module; its entry returned the pointer.
Result<const void*> open_module(std::string_view name);

// For programs that are linked with a module, such as tests: open_module() returns `module` and opens no
// file. To be called before the first open_module() of that name.
void register_module(std::string_view name, const void* module);

}  // namespace nezha
