// FabricLibrary: libfabric, opened at run time. Nezha is built with its headers and needs no library to
// start; the rest of its API is inline code that goes through tables of the objects it hands out.
//
// Contract: one for the process, opened at the first call and never closed; any thread. Structures of
// the library's are allocated by it alone, so that a newer one may have longer ones. Errors:
// `unsupported` with what to install.
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

  // What the headers describe: the oldest library that will do.
  static constexpr uint32_t kApi = FI_VERSION(1, 17);

  // An empty one, for hints; null without memory.
  Info make_info() const { return Info(dupinfo_(nullptr)); }
  Info copy(const fi_info& info) const { return Info(dupinfo_(&info)); }
  // A list, or null with the library's (negative) reason. `node`: a numeric address of this host, or "".
  Info find(const fi_info& hints, const std::string& node, int* reason) const;
  int open_fabric(fi_fabric_attr* attributes, fid_fabric** fabric) const {
    return fabric_(attributes, fabric, nullptr);
  }
  // "1.17"
  std::string version() const;
  bool is_older_than(uint32_t major, uint32_t minor) const;
  // Of a negative return value.
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
