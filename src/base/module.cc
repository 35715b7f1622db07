#include "base/module.h"

#include <dlfcn.h>
#include <unistd.h>

#include <map>
#include <mutex>

#include "base/interrupt.h"
#include "base/log_sink.h"

namespace nezha {

const char* const kVersion = NEZHA_VERSION;

namespace {

constexpr ModuleHost kHost = {
    kVersion, log::level,
    // The module's threads are this library's, which knows their rank.
    [](log::Level level, int, const char* subsystem, const char* text) {
      if (log::enabled(level)) log::write(level, subsystem, "%s", text);
    },
    log::warn_once, interrupted, end_of_piece};

using Modules = std::map<std::string, const Module*, std::less<>>;

std::mutex& mutex() {
  static std::mutex one;
  return one;
}

// The modules that this process knows; called with mutex() held.
Modules& known() {
  static Modules all;
  return all;
}

std::string path_of(const std::string& file) {
  Dl_info own{};
  if (dladdr(&kHost, &own) == 0 || own.dli_fname == nullptr) return file;
  const std::string_view here = own.dli_fname;
  const size_t slash = here.rfind('/');
  if (slash == std::string_view::npos) return file;
  std::string beside = std::string(here.substr(0, slash + 1)) + file;
  return access(beside.c_str(), F_OK) == 0 ? beside : file;
}

Result<const Module*> open(const std::string& name) {
  const std::string path = path_of("libnezha_" + name + ".so");
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return error(Code::unsupported, "the module %s is not there (%s); the README says under Install what "
                 "it is built from", name.c_str(), dlerror());
  }
  const auto entry = reinterpret_cast<ModuleEntry>(dlsym(library, "nezha_module"));
  const Module* found = entry == nullptr ? nullptr : entry(&kHost);
  if (found != nullptr) return found;
  dlclose(library);
  return error(Code::unsupported, "%s is no module of Nezha %s; install the one that was built with it",
               path.c_str(), kVersion);
}

Result<const Module*> find(std::string_view name) {
  const std::lock_guard lock(mutex());
  if (const auto found = known().find(name); found != known().end()) return found->second;
  auto module = open(std::string(name));
  if (module) known().emplace(name, *module);
  return module;
}

}  // namespace

bool join_host(const ModuleHost& host) {
  if (std::string_view(host.version) != kVersion) return false;
  log::set_level(host.log_level());
  log::set_sink(host.log);
  log::set_warn_once(host.warn_once);
  set_interrupts({host.interrupted, host.end_of_piece});
  return true;
}

Result<const void*> open_module(std::string_view name, std::string_view interface) {
  auto module = find(name);
  if (!module) return module.status();
  if ((*module)->interface != interface) {
    return error(Code::unsupported, "the module %s has no %s", std::string(name).c_str(),
                 std::string(interface).c_str());
  }
  (*module)->set_log_level(log::level());
  return (*module)->object;
}

void register_module(std::string_view name, const Module& module) {
  const std::lock_guard lock(mutex());
  known().emplace(name, &module);
}

}  // namespace nezha
