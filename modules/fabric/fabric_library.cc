#include "fabric/fabric_library.h"

#include <dlfcn.h>

#include <cstdlib>

#include "base/config.h"

namespace nezha::transport {
namespace {

constexpr char kName[] = "libfabric.so.1";

template <class Function>
bool find_symbol(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

}  // namespace

Result<const FabricLibrary*> FabricLibrary::open() {
  static FabricLibrary library;
  static const Status loaded = library.load();
  if (!loaded) return loaded;
  return &library;
}

Status FabricLibrary::load() {
  // Each port talks to one peer; a small adapter has no queue as long as the default of 256 needs.
  set_environment_default("FI_UNIVERSE_SIZE", "4");
  // With CMA (cross-memory attach) a peer reads our memory by itself, for as long as it likes:
  // closing a port does not end that. Copying through the shared segment was no slower.
  set_environment_default("FI_SHM_DISABLE_CMA", "1");
  // `ofi_rxm` returns the buffer of an arrived message to the connection on which it arrived, which
  // may just have been freed; a receive context that connections share still exists then.
  set_environment_default("FI_OFI_RXM_USE_SRX", "1");
  // The number of receive buffers of each port, of 16 KiB each; the default is 4096.
  set_environment_default("FI_OFI_RXM_MSG_RX_SIZE", "64");
  void* const library = dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    return error(Code::unsupported, "RDMA rails need libfabric, which could not be opened (%s); install "
                 "it (Debian, Ubuntu: apt install libfabric1; Fedora: dnf install libfabric), or put the "
                 "folder of %s into LD_LIBRARY_PATH", why == nullptr ? kName : why, kName);
  }
  if (!find_symbol(library, "fi_getinfo", &getinfo_) ||
      !find_symbol(library, "fi_freeinfo", &freeinfo_) ||
      !find_symbol(library, "fi_dupinfo", &dupinfo_) ||
      !find_symbol(library, "fi_fabric", &fabric_) ||
      !find_symbol(library, "fi_version", &version_) ||
      !find_symbol(library, "fi_strerror", &strerror_)) {
    return error(Code::unsupported, "%s is not the libfabric that Nezha knows; install 1.17 or newer",
                 kName);
  }
  if (FI_VERSION_LT(version_(), kApi)) {
    return error(Code::unsupported, "libfabric %s is too old for RDMA rails; install 1.17 or newer",
                 version().c_str());
  }
  return Status::ok();
}

void FabricLibrary::FreeInfo::operator()(fi_info* info) const {
  // An fi_info exists only after the library was opened.
  if (const auto library = open()) library.value()->freeinfo_(info);
}

FabricLibrary::Info FabricLibrary::find(const fi_info& hints, const std::string& node,
                                        int* reason) const {
  fi_info* found = nullptr;
  const uint64_t flags = node.empty() ? 0 : FI_SOURCE;
  *reason = getinfo_(kApi, node.empty() ? nullptr : node.c_str(), nullptr, flags, &hints, &found);
  return Info(*reason == 0 ? found : nullptr);
}

std::string FabricLibrary::version() const {
  const uint32_t version = version_();
  return std::to_string(FI_MAJOR(version)) + "." + std::to_string(FI_MINOR(version));
}

bool FabricLibrary::is_older_than(uint32_t major, uint32_t minor) const {
  return FI_VERSION_LT(version_(), FI_VERSION(major, minor));
}

std::string FabricLibrary::explain(long reason) const {
  return strerror_(static_cast<int>(std::labs(reason)));
}

}  // namespace nezha::transport
