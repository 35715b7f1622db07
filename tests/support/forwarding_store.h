// ForwardingStore: another store with the same answers, for tests that change or count some of them.
//
// Contract: as the store behind it, which it owns.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "rendezvous/store.h"

namespace nezha::testing {

class ForwardingStore : public rendezvous::Store {
 public:
  explicit ForwardingStore(std::unique_ptr<rendezvous::Store> store) : store_(std::move(store)) {}

  Status set(std::string_view key, std::string_view value, Nanoseconds deadline) override {
    return store_->set(key, value, deadline);
  }
  Result<WipedText> get(std::string_view key, Nanoseconds deadline) override {
    return store_->get(key, deadline);
  }
  Result<WipedText> set_if_absent(std::string_view key, std::string_view value,
                                  Nanoseconds deadline) override {
    return store_->set_if_absent(key, value, deadline);
  }
  Status remove(std::string_view key, Nanoseconds deadline) override {
    return store_->remove(key, deadline);
  }
  std::string describe() const override { return store_->describe(); }
  bool outlives_job() const override { return store_->outlives_job(); }

 private:
  const std::unique_ptr<rendezvous::Store> store_;
};

}  // namespace nezha::testing
