#include "redis/redis_module.h"

#include <utility>

#include "redis/redis_store.h"
#include "rendezvous/checked_store.h"
#include "rendezvous/store_module.h"

namespace nezha::rendezvous {
namespace {

class RedisStores final : public StoreModule {
 public:
  Result<std::unique_ptr<Store>> open(std::string_view text, const OpenOptions& options) const override {
    auto address = parse_redis_address(text);
    if (!address) return address.status();
    const std::string prefix = address->prefix + options.prefix;
    auto store = open_redis_store(std::move(*address), options.deadline, options.patience);
    if (!store) return store.status();
    return checked(std::move(*store), prefix);
  }
};

}  // namespace

const Module& redis_module() {
  static const RedisStores stores;
  static const Module module{StoreModule::kInterface, static_cast<const StoreModule*>(&stores),
                             log::set_level};
  return module;
}

}  // namespace nezha::rendezvous
