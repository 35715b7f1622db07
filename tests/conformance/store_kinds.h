// The kinds of stores that the conformance suite runs on, each with what it needs around it.
//
// Contract: test support, main thread. A Place owns its server, directory or table; stores opened
// from it with the same prefix see each other.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "rendezvous/socket.h"
#include "rendezvous/store.h"
#include "rendezvous/waiting.h"
#include "support/temp_directory.h"

namespace nezha::rendezvous {

// Long enough that only a hang reaches it.
inline Nanoseconds test_deadline() { return system_clock().now() + 120 * kSecond; }
inline Nanoseconds past() { return system_clock().now(); }

inline std::unique_ptr<Store> opened(const std::string& address, bool serve = false,
                                     const std::string& prefix = "",
                                     std::optional<StoreKey> key = std::nullopt) {
  OpenOptions options;
  options.serve = serve;
  options.prefix = prefix;
  options.key = std::move(key);
  options.deadline = test_deadline();
  auto store = open_store(address, options);
  EXPECT_TRUE(store.is_ok()) << store.status().to_string();
  return store ? std::move(*store) : nullptr;
}

class Place {
 public:
  virtual ~Place() = default;
  virtual std::unique_ptr<Store> open(const std::string& prefix) = 0;
  // Why this machine cannot have one; "" when it can.
  virtual std::string missing() const { return ""; }
};

class TcpPlace final : public Place {
 public:
  TcpPlace() : server_(opened("tcp://127.0.0.1:0", true)) {}
  std::unique_ptr<Store> open(const std::string& prefix) override {
    return opened(server_->describe(), false, prefix);
  }

 private:
  std::unique_ptr<Store> server_;
};

class FilePlace final : public Place {
 public:
  std::unique_ptr<Store> open(const std::string& prefix) override {
    return opened("file://" + directory_.path(), false, prefix);
  }

 private:
  const nezha::testing::TempDirectory directory_;
};

class HashPlace final : public Place {
 public:
  HashPlace() : keeper_(opened("hash://conformance")) {}
  std::unique_ptr<Store> open(const std::string& prefix) override {
    return opened("hash://conformance", false, prefix);
  }

 private:
  std::unique_ptr<Store> keeper_;
};

// The caller's own store is a hash store here.
class CallbackPlace final : public Place {
 public:
  std::unique_ptr<Store> open(const std::string& prefix) override {
    StoreCallbacks callbacks;
    callbacks.user = inner_.get();
    callbacks.set = [](void* user, const char* key, const void* value, size_t size,
                       double timeout_s) {
      return number(static_cast<Store*>(user)->set(key, text(value, size), until(timeout_s)));
    };
    callbacks.get = [](void* user, const char* key, void* value, size_t* size, double timeout_s) {
      return give(static_cast<Store*>(user)->get(key, until(timeout_s)), value, size);
    };
    callbacks.set_if_absent = [](void* user, const char* key, const void* value, size_t size,
                                 void* winner, size_t* winner_size, double timeout_s) {
      return give(
          static_cast<Store*>(user)->set_if_absent(key, text(value, size), until(timeout_s)),
          winner, winner_size);
    };
    callbacks.remove = [](void* user, const char* key, double timeout_s) {
      return number(static_cast<Store*>(user)->remove(key, until(timeout_s)));
    };
    return open_callback_store(callbacks, prefix);
  }

 private:
  static int number(const Status& status) { return static_cast<int>(status.code()); }
  static std::string_view text(const void* value, size_t size) {
    return {static_cast<const char*>(value), size};
  }
  static Nanoseconds until(double timeout_s) { return deadline_after(system_clock(), timeout_s); }
  static int give(const Result<WipedText>& result, void* value, size_t* size) {
    if (!result) return number(result.status());
    if (result.value().size() > *size) return static_cast<int>(Code::exhausted);
    std::memcpy(value, result.value().data(), result.value().size());
    *size = result.value().size();
    return 0;
  }

  std::unique_ptr<Store> inner_ = opened("hash://callback-conformance");
};

}  // namespace nezha::rendezvous
