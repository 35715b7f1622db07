// RailKind: rails besides those of TCP, which the entries KIND:WHAT of the option `rails` ask for.
//
// Contract: one object a process for each kind, which lives as long as the process; any thread. It
// comes from the module of the same name (base/module.h). Errors: see each.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "transport/transport.h"

namespace nezha::transport {

class RailKind {
 public:
  struct Rail {
    RailAddress rail;
    std::string net_device;  // the Ethernet device of the same adapter, "" when it has none
  };

  static constexpr char kInterface[] = "rails";  // of the kind's module

  virtual ~RailKind() = default;
  // The value of RailAddress::transport in rails of this kind.
  virtual std::string_view name() const = 0;
  // The rails that WHAT stands for, at least one. `invalid_argument` when the host has none.
  virtual Result<std::vector<Rail>> find(const std::string& what) const = 0;
  virtual std::unique_ptr<Transport> make() const = 0;
  // JSON: the devices of this kind that the host has.
  virtual std::string describe() const = 0;
};

// The kind of that name. `unsupported`, with what to install, where there is none.
Result<const RailKind*> rail_kind(std::string_view name);

}  // namespace nezha::transport
