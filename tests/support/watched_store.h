// WatchedStore: the caller's own store, in the hands of somebody who can read and change all of it.
//
// Contract: any thread; outlives the ranks that meet in it. The hooks are set before ranks come, and
// called by the rank's thread without the lock.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/store.h"

namespace nezha::testing {

class WatchedStore {
 public:
  // What is stored in place of the value that a rank wrote; false: the rank hears that it failed.
  std::function<bool(const std::string& key, std::string& value)> on_set;
  // What a rank reads in place of what is stored.
  std::function<void(int reader, const std::string& key, std::string& value)> on_get;

  // For one rank. At most kReaders of them.
  rendezvous::StoreCallbacks callbacks(int reader = 0) {
    rendezvous::StoreCallbacks calls;
    views_[static_cast<size_t>(reader)] = {this, reader};
    calls.user = &views_[static_cast<size_t>(reader)];
    calls.set = [](void* user, const char* key, const void* value, size_t size, double) {
      return self(user).write(key, {static_cast<const char*>(value), size}, true, nullptr);
    };
    calls.set_if_absent = [](void* user, const char* key, const void* value, size_t size, void* winner,
                             size_t* winner_size, double) {
      std::string kept;
      const int code = self(user).write(key, {static_cast<const char*>(value), size}, false, &kept);
      return code != 0 ? code : give(kept, winner, winner_size);
    };
    calls.get = [](void* user, const char* key, void* value, size_t* size, double timeout_s) {
      std::string found;
      WatchedStore& store = self(user);
      if (!store.await(key, timeout_s, &found)) return static_cast<int>(Code::timed_out);
      if (store.on_get) store.on_get(static_cast<View*>(user)->reader, key, found);
      return give(found, value, size);
    };
    calls.remove = [](void* user, const char* key, double) {
      const std::lock_guard lock(self(user).mutex_);
      self(user).values_.erase(key);
      return 0;
    };
    return calls;
  }

  bool await(const std::string& key, double timeout_s, std::string* value = nullptr) {
    std::unique_lock lock(mutex_);
    const auto there = [&] { return values_.count(key) != 0; };
    const auto limit = std::chrono::duration<double>(std::min(timeout_s, 3600.0));
    if (!changed_.wait_for(lock, limit, there)) return false;
    if (value != nullptr) *value = values_[key];
    return true;
  }
  void put(const std::string& key, std::string value) {
    const std::lock_guard lock(mutex_);
    history_.push_back(value);
    values_[key] = std::move(value);
    changed_.notify_all();
  }
  std::map<std::string, std::string> values() {
    const std::lock_guard lock(mutex_);
    return values_;
  }
  // Whether a rank wrote it.
  bool wrote(const std::string& key) {
    const std::lock_guard lock(mutex_);
    return written_.count(key) != 0;
  }
  // All that was ever written.
  std::vector<std::string> history() {
    const std::lock_guard lock(mutex_);
    return history_;
  }

 private:
  static constexpr size_t kReaders = 8;
  struct View {
    WatchedStore* store = nullptr;
    int reader = 0;
  };
  static WatchedStore& self(void* user) { return *static_cast<View*>(user)->store; }
  static int give(const std::string& text, void* value, size_t* size) {
    if (text.size() > *size) return static_cast<int>(Code::exhausted);
    std::memcpy(value, text.data(), text.size());
    *size = text.size();
    return 0;
  }
  int write(const std::string& key, std::string value, bool replace, std::string* kept) {
    if (on_set && !on_set(key, value)) return static_cast<int>(Code::internal);
    const std::lock_guard lock(mutex_);
    history_.push_back(value);
    written_.insert(key);
    if (replace || values_.count(key) == 0) values_[key] = std::move(value);
    if (kept != nullptr) *kept = values_[key];
    changed_.notify_all();
    return 0;
  }

  std::array<View, kReaders> views_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
  std::set<std::string> written_;
  std::vector<std::string> history_;
};

}  // namespace nezha::testing
