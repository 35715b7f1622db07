// FabricRail: a device opened through libfabric, and the memory registered with it.
//
// Contract
//   Owner    the transport, or a port (`another`); every port and every registration of the rail is
//            closed before it. Used with one loop's progress lock held, or by one thread before the
//            loop starts: the library is told that it need not lock.
//   Memory   is registered for each transfer anew. Providers that do it in software only note a
//            range; those that pin memory have a cache with a monitor of the process's mappings,
//            the only place where a cache cannot become stale
//            (docs/adr/0012-memory-is-registered-for-each-transfer.md).
//   Errors   `unsupported` and `exhausted`, naming provider, device and address.
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "fabric/fabric_library.h"

namespace nezha::transport {

// The address and the key with which a peer writes into registered memory.
struct RemoteMemory {
  uint64_t address = 0;
  uint64_t key = 0;
};

class FabricRail {
 public:
  // `address`: numeric, "" for providers that choose one; `domain`: "" for any.
  static Result<std::unique_ptr<FabricRail>> open(const std::string& provider,
                                                  const std::string& domain,
                                                  const std::string& address);
  ~FabricRail();
  FabricRail(const FabricRail&) = delete;
  FabricRail& operator=(const FabricRail&) = delete;

  const FabricLibrary& library() const { return library_; }
  const fi_info& info() const { return *info_; }
  std::string_view provider() const { return info_->fabric_attr->prov_name; }
  fid_fabric* fabric() const { return fabric_; }
  fid_domain* domain() const { return domain_; }
  // "net, lo"
  const std::string& name() const { return name_; }
  // The network device whose carrier is that of the rail; "" when it is not known.
  std::string net_device() const;

  // Whether sources and message buffers have to be registered, too.
  bool needs_local() const { return (info_->domain_attr->mr_mode & FI_MR_LOCAL) != 0; }
  // Registers memory of this host that operations read, or receive into; null and Status ok when it
  // needs no registration.
  Status register_local(const std::byte* begin, size_t bytes, fid_mr** region);
  // Registers memory into which one peer writes.
  Status register_target(std::byte* begin, size_t bytes, fid_mr** region, RemoteMemory* remote);
  static void forget(fid_mr*& region);

  // See tells_writes_by_message().
  bool tells_by_message() const { return tells_by_message_; }

  // Payloads up to this length go with their header.
  size_t eager_bytes() const { return eager_bytes_; }

  // Whether a port whose queue nobody reads any more touches no memory, and has to stay until the
  // rail is destroyed. This is so for shared memory: the thread that reads the queue does the work,
  // and a peer in this process uses the port's own segment (libfabric 1.17 maps it only for other
  // processes).
  bool keeps_ports() const { return keeps_ports_; }
  void keep(fid* endpoint, fid* addresses, fid* queue);

  // Whether each port needs the device opened for it alone: `net` goes on with connection requests
  // that were on their way to a port after it was closed, as soon as another port of the same
  // domain is asked (libfabric 1.17). `net` registers only memory that peers write into.
  bool isolates_ports() const { return isolates_ports_; }
  // Opens the device of this rail once more.
  Result<std::unique_ptr<FabricRail>> another() const;

 private:
  FabricRail(const FabricLibrary& library, FabricLibrary::Info info)
      : library_(library), info_(std::move(info)) {}
  Status open();
  Status enlist(const std::byte* begin, size_t bytes, uint64_t access, fid_mr** region);
  uint64_t next_key();

  const FabricLibrary& library_;
  const FabricLibrary::Info info_;
  std::string name_;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  uint64_t key_state_ = 0;
  size_t eager_bytes_ = 0;
  bool keeps_ports_ = false;
  bool tells_by_message_ = false;
  bool isolates_ports_ = false;
  std::vector<fid*> kept_;  // closed in this order
};

}  // namespace nezha::transport
