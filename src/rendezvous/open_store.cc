// open_store: the one list of the kinds of stores.
#include <algorithm>

#include "base/module.h"
#include "rendezvous/address.h"
#include "rendezvous/checked_store.h"
#include "rendezvous/file_store.h"
#include "rendezvous/hash_store.h"
#include "rendezvous/store.h"
#include "rendezvous/store_module.h"
#include "rendezvous/tcp_store.h"

namespace nezha::rendezvous {
namespace {

// A rank has one connection, and a second while it waits for something at the same time.
size_t places_for(const OpenOptions& options) {
  return std::max(kClientsMax, 2 * options.clients);
}

Result<std::unique_ptr<Store>> open_tcp(const StoreAddress& address, const OpenOptions& options) {
  std::unique_ptr<TcpServer> server;
  if (options.serve) {
    auto started = TcpServer::start(address.host, address.port, kServerMemoryBytes, options.prefix,
                                    options.key, places_for(options));
    if (!started) {
      return Status(started.status().code(),
                    "store tcp://" + host_and_port(address.host, address.port) + ": " +
                        started.status().message() +
                        "; the rank that serves needs an address of its own node and a free port, and "
                        "only one process of a job is rank 0")
          .with_errno(started.status().os_errno);
    }
    server = std::move(*started);
  }
  return open_tcp_store(address, std::move(server), options.deadline, options.key);
}

Result<std::unique_ptr<Store>> open_in_module(std::string_view name, std::string_view address,
                                              const OpenOptions& options) {
  auto module = open_module(name, StoreModule::kInterface);
  if (!module) {
    return Status(module.status().code(),
                  "store " + without_secrets(address) + ": " + module.status().message());
  }
  return static_cast<const StoreModule*>(*module)->open(address, options);
}

Result<std::unique_ptr<Store>> prefixed(Result<std::unique_ptr<Store>> store, const std::string& prefix) {
  if (!store) return store;
  return checked(std::move(*store), prefix);
}

}  // namespace

Result<std::unique_ptr<Store>> open_store(std::string_view address, const OpenOptions& options) {
  auto parsed = parse_store_address(address, options.serve);
  if (!parsed) return parsed.status();
  switch (parsed->kind) {
    case StoreKind::hash: return checked(open_hash_store(parsed->path), options.prefix);
    case StoreKind::file: return prefixed(open_file_store(parsed->path), options.prefix);
    case StoreKind::redis: return open_in_module("redis", address, options);
    case StoreKind::tcp: break;
  }
  return prefixed(open_tcp(*parsed, options), options.prefix);
}

}  // namespace nezha::rendezvous
