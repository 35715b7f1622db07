#include "rendezvous/redis_store.h"

#include "rendezvous/waiting.h"

#ifdef NEZHA_HAVE_HIREDIS
#include <hiredis/hiredis.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <initializer_list>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace nezha::rendezvous {
namespace {

constexpr Nanoseconds kFirstPause = 2 * kMillisecond;
constexpr Nanoseconds kLongestPause = 50 * kMillisecond;
constexpr Nanoseconds kLongestCommand = 3600 * kSecond;
constexpr std::string_view kExpirySeconds = "86400";

using Connection = std::unique_ptr<redisContext, decltype(&redisFree)>;
using Reply = std::unique_ptr<redisReply, decltype(&freeReplyObject)>;

timeval time_left(Nanoseconds deadline) {
  // Never zero, which would mean "for ever".
  const Nanoseconds left = std::max(remaining(deadline, kLongestCommand), kMillisecond);
  return {static_cast<time_t>(left / kSecond),
          static_cast<suseconds_t>(left % kSecond / kMicrosecond)};
}

// hiredis writes without MSG_NOSIGNAL, so a server that is gone would kill the process.
class NoBrokenPipe {
 public:
  NoBrokenPipe() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~NoBrokenPipe() {
    const timespec no_time{};
    // Take back the one that a write of ours may have raised.
    if (!was_pending_) sigtimedwait(&signals_, nullptr, &no_time);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoBrokenPipe(const NoBrokenPipe&) = delete;
  NoBrokenPipe& operator=(const NoBrokenPipe&) = delete;

 private:
  sigset_t signals_;
  sigset_t before_;
  bool was_pending_ = false;
};

class RedisStore final : public Store {
 public:
  explicit RedisStore(const StoreAddress& address)
      : address_(address),
        description_("redis://" + host_and_port(address.host, address.port) + "/" +
                     std::to_string(address.database)) {}

  Status open(Nanoseconds deadline) {
    const std::lock_guard lock(mutex_);
    return connect(deadline);
  }

  Status set(std::string_view key, std::string_view value, Nanoseconds deadline) override {
    return command("set", key, {"SET", key, value, "EX", kExpirySeconds}, deadline).status();
  }

  Result<std::string> get(std::string_view key, Nanoseconds deadline) override {
    Backoff backoff(kFirstPause, kLongestPause);
    for (;;) {
      auto value = read("get", key, deadline);
      if (!value) return value.status();
      if (value.value()) return std::move(*value.value());
      if (expired(deadline)) return store_timed_out(description_, "get", key);
      backoff.sleep(deadline);
    }
  }

  Result<std::string> set_if_absent(std::string_view key, std::string_view value,
                                    Nanoseconds deadline) override {
    constexpr std::string_view kOperation = "set_if_absent";
    Backoff backoff(kFirstPause, kLongestPause);
    for (;;) {
      const auto reply =
          command(kOperation, key, {"SET", key, value, "EX", kExpirySeconds, "NX"}, deadline);
      if (!reply) return reply.status();
      if (reply.value()->type != REDIS_REPLY_NIL) return std::string(value);
      auto winner = read(kOperation, key, deadline);
      if (!winner) return winner.status();
      if (winner.value()) return std::move(*winner.value());
      if (expired(deadline)) return store_timed_out(description_, kOperation, key);
      backoff.sleep(deadline);  // removed between the two commands
    }
  }

  Status remove(std::string_view key, Nanoseconds deadline) override {
    return command("remove", key, {"DEL", key}, deadline).status();
  }

  std::string describe() const override { return description_; }

 private:
  Result<std::optional<std::string>> read(std::string_view operation, std::string_view key,
                                          Nanoseconds deadline) {
    const auto reply = command(operation, key, {"GET", key}, deadline);
    if (!reply) return reply.status();
    if (reply.value()->type == REDIS_REPLY_NIL) return std::optional<std::string>();
    if (reply.value()->type != REDIS_REPLY_STRING || reply.value()->len > kValueBytesMax) {
      return store_error(Code::internal, description_, operation, key,
                         "what Redis has there was not written by this store");
    }
    return std::optional(std::string(reply.value()->str, reply.value()->len));
  }

  Result<Reply> command(std::string_view operation, std::string_view key,
                        std::initializer_list<std::string_view> words, Nanoseconds deadline) {
    const std::lock_guard lock(mutex_);
    if (!connection_) {
      const Status status = connect(deadline);
      if (!status) {
        return store_error(status.code(), description_, operation, key, status.message());
      }
    }
    auto reply = execute(words, deadline);
    if (reply) return reply;
    if (reply.status().code() == Code::timed_out) {
      return store_timed_out(description_, operation, key);
    }
    return store_error(reply.status().code(), description_, operation, key,
                       reply.status().message());
  }

  // Under mutex_, connected. A connection that failed is thrown away: its answers are out of step.
  Result<Reply> execute(std::initializer_list<std::string_view> words, Nanoseconds deadline) {
    std::vector<const char*> texts;
    std::vector<size_t> sizes;
    for (const std::string_view word : words) {
      texts.push_back(word.data() == nullptr ? "" : word.data());
      sizes.push_back(word.size());
    }
    const NoBrokenPipe guard;
    redisSetTimeout(connection_.get(), time_left(deadline));
    Reply reply(static_cast<redisReply*>(redisCommandArgv(connection_.get(),
                                                          static_cast<int>(texts.size()),
                                                          texts.data(), sizes.data())),
                &freeReplyObject);
    if (!reply) {
      const std::string text = connection_->errstr;
      connection_.reset();
      if (expired(deadline)) return Status(Code::timed_out, text);
      return Status(Code::peer_lost, "the connection broke (" + text + "); is Redis running?");
    }
    if (reply->type != REDIS_REPLY_ERROR) return reply;
    const std::string_view text(reply->str, reply->len);
    const bool full = text.starts_with("OOM");
    return Status(full ? Code::exhausted : Code::invalid_argument,
                  "Redis answers: " + std::string(text.substr(0, 300)));
  }

  // Under mutex_.
  Status connect(Nanoseconds deadline) {
    connection_.reset(
        redisConnectWithTimeout(address_.host.c_str(), address_.port, time_left(deadline)));
    if (!connection_ || connection_->err != 0) {
      const std::string text = connection_ ? connection_->errstr : "out of memory";
      connection_.reset();
      return {expired(deadline) ? Code::timed_out : Code::peer_lost,
              "cannot connect to " + description_ + ": " + text + "; is Redis running there?"};
    }
    redisEnableKeepAlive(connection_.get());
    const auto log_in = [&]() -> Status {
      if (!address_.user.empty()) {
        return execute({"AUTH", address_.user, address_.password}, deadline).status();
      }
      if (!address_.password.empty()) {
        return execute({"AUTH", address_.password}, deadline).status();
      }
      return Status::ok();
    };
    Status status = log_in();
    if (status) status = execute({"SELECT", std::to_string(address_.database)}, deadline).status();
    if (status) return status;
    connection_.reset();
    return {status.code(), "store " + description_ + ": " + status.message()};
  }

  const StoreAddress address_;
  const std::string description_;
  std::mutex mutex_;
  Connection connection_{nullptr, &redisFree};  // by mutex_; null when broken
};

}  // namespace

Result<std::unique_ptr<Store>> open_redis_store(const StoreAddress& address,
                                                Nanoseconds deadline) {
  auto store = std::make_unique<RedisStore>(address);
  NEZHA_RETURN_IF_ERROR(store->open(deadline));
  return std::unique_ptr<Store>(std::move(store));
}

}  // namespace nezha::rendezvous

#else

namespace nezha::rendezvous {

Result<std::unique_ptr<Store>> open_redis_store(const StoreAddress&, Nanoseconds) {
  return Status(Code::unsupported,
                "store redis://: this build has no Redis client; install hiredis (libhiredis-dev) "
                "and build again, or use tcp:// or file://");
}

}  // namespace nezha::rendezvous

#endif
