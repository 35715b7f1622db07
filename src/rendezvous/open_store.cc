// open_store: the one list of the kinds of stores.
#include <algorithm>

#include "rendezvous/address.h"
#include "rendezvous/checked_store.h"
#include "rendezvous/file_store.h"
#include "rendezvous/hash_store.h"
#include "rendezvous/redis_store.h"
#include "rendezvous/store.h"
#include "rendezvous/tcp_store.h"

namespace nezha::rendezvous {
namespace {

// A rank has one connection, and a second while it waits for something at the same time.
size_t places_for(const OpenOptions& options) {
  return std::max(kClientsMax, 2 * options.clients);
}

Result<std::unique_ptr<Store>> open_kind(StoreAddress address, const OpenOptions& options) {
  switch (address.kind) {
    case StoreKind::hash: return open_hash_store(address.path);
    case StoreKind::file: return open_file_store(address.path);
    case StoreKind::redis:
      return open_redis_store(std::move(address), options.deadline, options.patience);
    case StoreKind::tcp: break;
  }
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

}  // namespace

Result<std::unique_ptr<Store>> open_store(std::string_view address, const OpenOptions& options) {
  auto parsed = parse_store_address(address, options.serve);
  if (!parsed) return parsed.status();
  const std::string prefix = parsed->prefix + options.prefix;
  auto store = open_kind(std::move(*parsed), options);
  if (!store) return store.status();
  return checked(std::move(*store), prefix);
}

}  // namespace nezha::rendezvous
