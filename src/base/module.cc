#include "base/module.h"

#include <dlfcn.h>
#include <unistd.h>

#include <map>
#include <mutex>

namespace nezha {

const char* const kVersion = NEZHA_VERSION;

namespace {

constexpr ModuleHost kHost = {
    kVersion, log::level,
    // The module's threads are this library's, which knows their rank.
    [](log::Level level, int, const char* subsystem, const char* text) {
      if (log::enabled(level)) log::write(level, subsystem, "%s", text);
    }};

std::string path_of(const std::string& file) {
  Dl_info own{};
  if (dladdr(&kHost, &own) == 0 || own.dli_fname == nullptr) return file;
  const std::string_view here = own.dli_fname;
  const size_t slash = here.rfind('/');
  if (slash == std::string_view::npos) return file;
  std::string beside = std::string(here.substr(0, slash + 1)) + file;
  return access(beside.c_str(), F_OK) == 0 ? beside : file;
}

Result<const void*> open(const std::string& name) {
  const std::string path = path_of("libnezha_" + name + ".so");
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return error(Code::unsupported, "the module %s is not there (%s); the README says under Install what "
                 "it is built from", name.c_str(), dlerror());
  }
  const auto entry = reinterpret_cast<ModuleEntry>(dlsym(library, "nezha_module"));
  const void* found = entry == nullptr ? nullptr : entry(&kHost);
  if (found != nullptr) return found;
  dlclose(library);
  return error(Code::unsupported, "%s is no module of Nezha %s; install the one that was built with it",
               path.c_str(), kVersion);
}

struct Modules {
  std::mutex mutex;
  std::map<std::string, const void*, std::less<>> opened;
};

// Made at the first use: programs register their modules before main().
Modules& modules() {
  static Modules all;
  return all;
}

}  // namespace

Result<const void*> open_module(std::string_view name) {
  auto& [mutex, opened] = modules();
  const std::lock_guard lock(mutex);
  if (const auto found = opened.find(name); found != opened.end()) return found->second;
  auto module = open(std::string(name));
  if (module) opened.emplace(name, *module);
  return module;
}

void register_module(std::string_view name, const void* module) {
  auto& [mutex, opened] = modules();
  const std::lock_guard lock(mutex);
  opened.insert_or_assign(std::string(name), module);
}

}  // namespace nezha
