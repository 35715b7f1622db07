// FabricLibrary: libfabric, opened at run time. Nezha is built with its headers and needs no
// library to start; the rest of its API is inline code that calls through tables in the objects
// that the library returns.
//
// Contract: one object in the process, opened at the first call and never closed; any thread. Only
// the library allocates its structures, because those of a newer library may be longer. Errors:
// `unsupported`, with what to install.
#pragma once

#include <rdma/fabric.h>

#include <memory>
#include <string>

#include "base/status.h"

namespace nezha::transport {

class FabricLibrary {
 public:
  static Result<const FabricLibrary*> open();

  struct FreeInfo {
    void operator()(fi_info* info) const;
  };
  using Info = std::unique_ptr<fi_info, FreeInfo>;

  // The version of the API that is used here; an older library is refused.
  static constexpr uint32_t kApi = FI_VERSION(1, 17);

  // An empty fi_info, for hints; null without memory.
  Info make_info() const { return Info(dupinfo_(nullptr)); }
  Info copy(const fi_info& info) const { return Info(dupinfo_(&info)); }
  // A list of what fits, or null and the library's (negative) reason. `node`: a numeric address of
  // this host, or "".
  Info find(const fi_info& hints, const std::string& node, int* reason) const;
  int open_fabric(fi_fabric_attr* attributes, fid_fabric** fabric) const {
    return fabric_(attributes, fabric, nullptr);
  }
  // "1.17"
  std::string version() const;
  bool is_older_than(uint32_t major, uint32_t minor) const;
  // The library's text for a negative return value.
  std::string explain(long reason) const;

 private:
  FabricLibrary() = default;
  Status load();

  decltype(&fi_getinfo) getinfo_ = nullptr;
  decltype(&fi_freeinfo) freeinfo_ = nullptr;
  decltype(&fi_dupinfo) dupinfo_ = nullptr;
  decltype(&fi_fabric) fabric_ = nullptr;
  decltype(&fi_version) version_ = nullptr;
  decltype(&fi_strerror) strerror_ = nullptr;
};

}  // namespace nezha::transport
