// CallbackStore: the caller's own store, through four functions (contract: StoreCallbacks).
#include <algorithm>
#include <vector>

#include "rendezvous/checked_store.h"
#include "rendezvous/waiting.h"

namespace nezha::rendezvous {
namespace {

constexpr std::string_view kName = "callback";

class CallbackStore final : public Store {
 public:
  explicit CallbackStore(const StoreCallbacks& callbacks) : callbacks_(callbacks) {}

  Status set(std::string_view key, std::string_view value, Nanoseconds deadline) override {
    if (callbacks_.set == nullptr) return missing("set", key);
    const std::string name(key);
    return outcome("set", key,
                   callbacks_.set(callbacks_.user, name.c_str(), value.data(), value.size(),
                                  seconds(deadline)));
  }

  Result<WipedText> get(std::string_view key, Nanoseconds deadline) override {
    if (callbacks_.get == nullptr) return missing("get", key);
    const std::string name(key);
    WipedText value(kValueBytesMax, '\0');
    size_t size = value.size();
    NEZHA_RETURN_IF_ERROR(outcome("get", key,
                                  callbacks_.get(callbacks_.user, name.c_str(), value.data(), &size,
                                                 seconds(deadline))));
    return cut(std::move(value), size, "get", key);
  }

  Result<WipedText> set_if_absent(std::string_view key, std::string_view value,
                                  Nanoseconds deadline) override {
    if (callbacks_.set_if_absent == nullptr) return missing("set_if_absent", key);
    const std::string name(key);
    WipedText winner(kValueBytesMax, '\0');
    size_t size = winner.size();
    const int result =
        callbacks_.set_if_absent(callbacks_.user, name.c_str(), value.data(), value.size(),
                                 winner.data(), &size, seconds(deadline));
    NEZHA_RETURN_IF_ERROR(outcome("set_if_absent", key, result));
    return cut(std::move(winner), size, "set_if_absent", key);
  }

  Status remove(std::string_view key, Nanoseconds deadline) override {
    if (callbacks_.remove == nullptr) return missing("remove", key);
    const std::string name(key);
    return outcome("remove", key,
                   callbacks_.remove(callbacks_.user, name.c_str(), seconds(deadline)));
  }

  std::string describe() const override { return std::string(kName); }
  bool outlives_job() const override { return true; }

 private:
  static double seconds(Nanoseconds deadline) {
    constexpr Nanoseconds kLongest = 1'000'000'000 * kSecond;  // "no deadline", as a number
    return static_cast<double>(remaining(deadline, kLongest)) / static_cast<double>(kSecond);
  }

  static Status missing(std::string_view operation, std::string_view key) {
    return store_error(Code::unsupported, kName, operation, key,
                       "the caller's store has no such function; fill in all four callbacks");
  }

  static Status outcome(std::string_view operation, std::string_view key, int result) {
    if (result == 0) return Status::ok();
    const auto code = static_cast<Code>(result);
    if (code == Code::timed_out) return store_timed_out(kName, operation, key);
    const bool known = result > 0 && result <= static_cast<int>(Code::internal);
    return store_error(known ? code : Code::internal, kName, operation, key,
                       "the caller's store returned " + std::to_string(result));
  }

  static Result<WipedText> cut(WipedText value, size_t size, std::string_view operation,
                               std::string_view key) {
    if (size > value.size()) {
      return store_error(Code::internal, kName, operation, key,
                         "the caller's store says that it returned " + std::to_string(size) +
                             " bytes, more than the buffer holds");
    }
    return value.substr(0, size);  // a copy, so that a short value does not keep 1 MiB
  }

  StoreCallbacks callbacks_;
};

}  // namespace

std::unique_ptr<Store> open_callback_store(const StoreCallbacks& callbacks, std::string prefix) {
  return checked(std::make_unique<CallbackStore>(callbacks), std::move(prefix));
}

}  // namespace nezha::rendezvous
