#include "rendezvous/hash_store.h"

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <unordered_map>

#include "rendezvous/waiting.h"

namespace nezha::rendezvous {
namespace {

struct Table {
  std::mutex mutex;
  std::condition_variable changed;
  std::unordered_map<std::string, WipedText> values;
};

std::shared_ptr<Table> table_named(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<Table>> tables;
  const std::lock_guard lock(mutex);
  std::erase_if(tables, [](const auto& entry) { return entry.second.expired(); });
  std::shared_ptr<Table> table = tables[name].lock();
  if (!table) {
    table = std::make_shared<Table>();
    tables[name] = table;
  }
  return table;
}

class HashStore final : public Store {
 public:
  explicit HashStore(const std::string& name)
      : table_(table_named(name)), description_("hash://" + name) {}

  Status set(std::string_view key, std::string_view value, Nanoseconds) override {
    const std::lock_guard lock(table_->mutex);
    table_->values.insert_or_assign(std::string(key), WipedText(value));
    table_->changed.notify_all();
    return Status::ok();
  }

  Result<WipedText> get(std::string_view key, Nanoseconds deadline) override {
    const std::string name(key);
    std::unique_lock lock(table_->mutex);
    for (;;) {
      const auto entry = table_->values.find(name);
      if (entry != table_->values.end()) return entry->second;
      if (expired(deadline)) return store_timed_out(description_, "get", key);
      table_->changed.wait_for(lock, std::chrono::nanoseconds(remaining(deadline, kInterruptLook)));
    }
  }

  Result<WipedText> set_if_absent(std::string_view key, std::string_view value,
                                  Nanoseconds) override {
    const std::lock_guard lock(table_->mutex);
    const auto [entry, inserted] = table_->values.try_emplace(std::string(key), value);
    if (inserted) table_->changed.notify_all();
    return entry->second;
  }

  Status remove(std::string_view key, Nanoseconds) override {
    const std::lock_guard lock(table_->mutex);
    table_->values.erase(std::string(key));
    return Status::ok();
  }

  std::string describe() const override { return description_; }

 private:
  std::shared_ptr<Table> table_;
  std::string description_;
};

}  // namespace

std::unique_ptr<Store> open_hash_store(const std::string& name) {
  return std::make_unique<HashStore>(name);
}

}  // namespace nezha::rendezvous
