#include "rendezvous/checked_store.h"

#include "rendezvous/waiting.h"

namespace nezha::rendezvous {
namespace {

class CheckedStore final : public Store {
 public:
  CheckedStore(std::unique_ptr<Store> store, std::string prefix)
      : store_(std::move(store)), prefix_(std::move(prefix)) {}

  Status set(std::string_view key, std::string_view value, Nanoseconds deadline) override {
    NEZHA_RETURN_IF_ERROR(check("set", key, value));
    return store_->set(prefix_ + std::string(key), value, deadline);
  }

  Result<WipedText> get(std::string_view key, Nanoseconds deadline) override {
    NEZHA_RETURN_IF_ERROR(check("get", key, {}));
    return store_->get(prefix_ + std::string(key), deadline);
  }

  Result<WipedText> set_if_absent(std::string_view key, std::string_view value,
                                  Nanoseconds deadline) override {
    NEZHA_RETURN_IF_ERROR(check("set_if_absent", key, value));
    return store_->set_if_absent(prefix_ + std::string(key), value, deadline);
  }

  Status remove(std::string_view key, Nanoseconds deadline) override {
    NEZHA_RETURN_IF_ERROR(check("remove", key, {}));
    return store_->remove(prefix_ + std::string(key), deadline);
  }

  std::string describe() const override { return store_->describe(); }
  bool outlives_job() const override { return store_->outlives_job(); }

 private:
  Status check(std::string_view operation, std::string_view key, std::string_view value) const {
    const auto refuse = [&](const std::string& text) {
      return store_error(Code::invalid_argument, describe(), operation, key, text);
    };
    if (key.empty()) return refuse("the key is empty");
    if (prefix_.size() + key.size() > kKeyBytesMax) {
      return refuse("the key has " + std::to_string(prefix_.size() + key.size()) +
                    " bytes with its prefix; at most " + std::to_string(kKeyBytesMax));
    }
    if (key.find('\0') != std::string_view::npos || prefix_.find('\0') != std::string::npos) {
      return refuse("the key has a NUL in it");
    }
    if (value.size() > kValueBytesMax) {
      return refuse("the value has " + std::to_string(value.size()) + " bytes; at most " +
                    std::to_string(kValueBytesMax));
    }
    return Status::ok();
  }

  std::unique_ptr<Store> store_;
  std::string prefix_;
};

}  // namespace

std::unique_ptr<Store> checked(std::unique_ptr<Store> store, std::string prefix) {
  return std::make_unique<CheckedStore>(std::move(store), std::move(prefix));
}

}  // namespace nezha::rendezvous
