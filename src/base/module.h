// Modules: libraries with a part of Nezha that most jobs do not need, opened when a job asks for it.
//
// Contract: any thread. The module NAME is the file libnezha_NAME.so, looked for beside the file that
// this code is part of, then where the system's linker looks; once opened it stays. It hands out an
// object with virtual functions, and has a copy of its own of what it uses of this library. So what a
// process has once comes from its host: the log, and how a waiting thread is called back. It is of its
// host's version, or it is refused. Errors: `unsupported`, with what to install.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"

namespace nezha {

// The process that opens a module, for the module.
struct ModuleHost {
  const char* version;
  log::Level (*log_level)();
  void (*log)(log::Level level, int rank, const char* subsystem, const char* text);  // a log::Sink
  void (*warn_once)(const char* subsystem, const std::string& text);
  bool (*interrupted)();
  Nanoseconds (*end_of_piece)(const Clock& clock, Nanoseconds deadline);
};

// A module, for its host.
struct Module {
  const char* interface;  // what the object is: users name modules, and may name one of another kind
  const void* object;
  void (*set_log_level)(log::Level level);
};

// Every module exports it as `nezha_module`. It returns null when module and core are of different
// versions.
using ModuleEntry = const Module* (*)(const ModuleHost* host);

extern const char* const kVersion;

// In a module, before anything else: from now on its log and its interrupts are the host's. False when
// the host is of another version.
bool join_host(const ModuleHost& host);

// The object of the module, which is opened if it is not yet; its log has this one's level from now on.
Result<const void*> open_module(std::string_view name, std::string_view interface);

// For a program that is linked with a module, before it asks for it: no file is opened then.
void register_module(std::string_view name, const Module& module);

}  // namespace nezha
