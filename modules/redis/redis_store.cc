#include "redis/redis_store.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <mutex>
#include <optional>
#include <string>

#include "base/clean_text.h"
#include "base/interrupt.h"
#include "redis/resp.h"
#include "redis/stream.h"
#include "rendezvous/waiting.h"

namespace nezha::rendezvous {
namespace {

constexpr Nanoseconds kFirstPause = 2 * kMillisecond;
constexpr Nanoseconds kLongestPause = 50 * kMillisecond;
constexpr Nanoseconds kLongestOutagePause = 200 * kMillisecond;
// A server that is not Redis may never send a first answer.
constexpr Nanoseconds kGreetingWait = 5 * kSecond;
constexpr Nanoseconds kOneLook = 100 * kMillisecond;
constexpr size_t kReadBytes = 64 * 1024;
constexpr size_t kShownReply = 200;
constexpr char kTlsAlert = 0x15;

std::string description_of(const RedisAddress& address) {
  if (!address.path.empty()) return "redis+unix://" + address.path;
  return (address.tls ? "rediss://" : "redis://") + host_and_port(address.host, address.port) +
         "/" + std::to_string(address.database);
}

class RedisStore final : public Store {
 public:
  RedisStore(RedisAddress address, Nanoseconds patience)
      : address_(std::move(address)),
        patience_(patience),
        description_(description_of(address_)),
        time_to_live_(std::to_string(address_.ttl_s)) {}

  Status open(Nanoseconds deadline) {
    const std::lock_guard lock(mutex_);
    const auto reply = until_it_is_back(deadline, [&]() -> Result<RespReply> {
      NEZHA_RETURN_IF_ERROR(connect(deadline));
      return RespReply();
    });
    if (reply) return Status::ok();
    const Status status = reply.status();
    return Status(status.code(), "store " + description_ + ": " + status.message())
        .with_errno(status.os_errno);
  }

  Status set(std::string_view key, std::string_view value, Nanoseconds deadline) override {
    return command("set", key, {"SET", key, value, "EX", time_to_live_}, deadline).status();
  }

  Result<WipedText> get(std::string_view key, Nanoseconds deadline) override {
    Backoff backoff(kFirstPause, kLongestPause);
    for (;;) {
      auto value = read("get", key, deadline);
      if (!value) return value.status();
      if (value.value()) return std::move(*value.value());
      if (expired(deadline)) return store_timed_out(description_, "get", key);
      backoff.sleep(deadline);
    }
  }

  Result<WipedText> set_if_absent(std::string_view key, std::string_view value,
                                  Nanoseconds deadline) override {
    constexpr std::string_view kOperation = "set_if_absent";
    Backoff backoff(kFirstPause, kLongestPause);
    for (;;) {
      const auto reply =
          command(kOperation, key, {"SET", key, value, "EX", time_to_live_, "NX"}, deadline);
      if (!reply) return reply.status();
      if (reply.value().kind != RespReply::Kind::nothing) return WipedText(value);
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
  bool outlives_job() const override { return true; }

 private:
  Result<std::optional<WipedText>> read(std::string_view operation, std::string_view key,
                                          Nanoseconds deadline) {
    auto reply = command(operation, key, {"GET", key}, deadline);
    if (!reply) return reply.status();
    if (reply->kind == RespReply::Kind::nothing) return std::optional<WipedText>();
    return std::optional(std::move(reply->text));
  }

  Result<RespReply> command(std::string_view operation, std::string_view key,
                            std::initializer_list<std::string_view> words, Nanoseconds deadline) {
    const std::lock_guard lock(mutex_);
    // A deadline that has passed means one look, and a look takes a round trip.
    if (deadline != kNever) deadline = std::max(deadline, system_clock().now() + kOneLook);
    auto reply = until_it_is_back(deadline, [&]() -> Result<RespReply> {
      if (stream_ && !stream_->quiet()) stream_.reset();
      if (!stream_) NEZHA_RETURN_IF_ERROR(connect(deadline));
      return execute(words, deadline);
    });
    if (reply) return reply;
    const Status status = reply.status();
    if (status.code() == Code::timed_out && lost_since_ == kNever) {
      return store_timed_out(description_, operation, key);
    }
    return store_error(status.code(), description_, operation, key, status.message());
  }

  // Under mutex_. Every command may be repeated: it makes no difference whether the first attempt
  // reached the server, because values are unique where that matters. An outage lasts from the
  // first failure to the next success, however many commands fail in between.
  template <class Attempt>
  Result<RespReply> until_it_is_back(Nanoseconds deadline, Attempt&& attempt) {
    Backoff backoff(kFirstPause, kLongestOutagePause);
    for (;;) {
      const Nanoseconds begin = system_clock().now();
      auto reply = attempt();
      const bool gone = !reply && reply.status().code() == Code::peer_lost;
      if (!gone) {
        if (reply) lost_since_ = kNever;
        return reply;
      }
      if (lost_since_ == kNever) lost_since_ = begin;
      const Nanoseconds give_up = lost_since_ + patience_;
      if (system_clock().now() >= give_up || interrupted()) return given_up(reply.status());
      if (expired(deadline)) return Status(Code::timed_out, reply.status().message());
      backoff.sleep(std::min(deadline, give_up));
    }
  }

  Status given_up(const Status& status) const {
    const auto seconds = static_cast<double>(system_clock().now() - lost_since_) / kSecond;
    return error(Code::peer_lost, "%s; no answer for %.1f s", status.message().c_str(), seconds)
        .with_errno(status.os_errno);
  }

  // Under mutex_, connected. A connection on which a command failed is closed, because its next
  // answer may belong to that command.
  Result<RespReply> execute(std::initializer_list<std::string_view> words, Nanoseconds deadline) {
    auto reply = exchange(encode_command(words), deadline);
    if (!reply) stream_.reset();
    if (!reply || reply->kind != RespReply::Kind::error) return reply;
    return refusal(reply->text);
  }

  Result<RespReply> exchange(std::string_view request, Nanoseconds deadline) {
    // After a failed `send` the connection is still read: the reply that the server sent before it
    // closed explains more than the error of `send`.
    const Transfer sent = stream_->send(request, deadline);
    if (sent == Transfer::timed_out) return Status(Code::timed_out, "no answer");
    WipedText bytes;
    std::array<char, kReadBytes> part;
    RespReply reply;
    for (;;) {
      const RespOutcome outcome = parse_reply(bytes, &reply);
      if (outcome == RespOutcome::reply) return reply;
      if (outcome == RespOutcome::refused) return no_redis(bytes);
      size_t got = std::min(part.size(), kReplyBytesMax + 1 - bytes.size());
      const Transfer received = stream_->receive(part.data(), &got, deadline);
      if (received == Transfer::timed_out) return Status(Code::timed_out, "no answer");
      if (received == Transfer::lost) return broken();
      bytes.append(part.data(), got);
      wipe(part.data(), got);
    }
  }

  static Status no_redis(std::string_view bytes) {
    const bool tls = bytes.front() == kTlsAlert;
    return {Code::unsupported, tls ? "the server answers in TLS; the address for that is rediss://"
                                   : "what answers is no Redis, or the value there is not this "
                                     "store's"};
  }

  Status broken() const {
    const std::string why = stream_->why();
    std::string hint = "is Redis running?";
    if (why.find("certificate required") != std::string::npos) {
      hint = "the server wants a certificate of this client: ?cert=FILE&key=FILE";
    } else if (!greeted_ && !address_.tls && address_.path.empty()) {
      hint = "is this Redis, and without TLS? With TLS the address is rediss://";
    }
    return {Code::peer_lost, "the connection broke (" +
                                 (why.empty() ? std::string("the server closed it") : why) + "); " +
                                 hint};
  }

  // An error reply may quote a command that the server does not know, also AUTH with the password.
  std::string showable(WipedText text) const {
    constexpr std::string_view kCover = "***";
    const std::string_view secret = address_.password;
    for (size_t at = 0; !secret.empty(); at += kCover.size()) {
      at = text.find(secret, at);
      if (at == std::string::npos) break;
      text.replace(at, secret.size(), kCover);
    }
    return cleaned(text, kShownReply);
  }

  // The status for an error reply, with the meaning of that reply for the user.
  Status refusal(WipedText text) const {
    const auto says = [&](std::string_view words) { return text.find(words) != std::string::npos; };
    std::string meaning;
    if (says("WRONGPASS") || says("invalid password")) {
      meaning = address_.user.empty() ? "the password is wrong" : "the user name or password is wrong";
    } else if (says("NOAUTH")) {
      meaning = "the server wants a password: redis://[USER]:PASSWORD@HOST";
    } else if (says("without any password configured")) {
      meaning = "the server has no password, but the address has one";
    } else if (says("NOPERM")) {
      meaning = "the user may not do that; nezha needs SET, GET and DEL of its keys";
    } else if (says("OOM")) {
      meaning = "the server's memory is full";
    } else if (text.starts_with("LOADING") || text.starts_with("BUSY ") ||
               text.starts_with("MASTERDOWN") || text.starts_with("TRYAGAIN")) {
      return {Code::peer_lost, "the server does not answer yet (Redis answers: " +
                                   showable(std::move(text)) + ")"};
    }
    const std::string shown = showable(std::move(text));
    return {says("OOM") ? Code::exhausted : Code::invalid_argument,
            meaning.empty() ? "Redis answers: " + shown : meaning + " (Redis answers: " + shown + ")"};
  }

  // Under mutex_.
  Status connect(Nanoseconds deadline) {
    Status status = open_stream(deadline);
    greeted_ = false;
    const Nanoseconds until = system_clock().now() + remaining(deadline, kGreetingWait);
    if (status) status = log_in(until);
    if (status) {
      greeted_ = true;
      return status;
    }
    stream_.reset();
    const bool silent = status.code() == Code::timed_out && !expired(deadline);
    if (!silent) return status;
    return {Code::unsupported, "something accepts the connection, but does not answer as Redis"};
  }

  Status open_stream(Nanoseconds deadline) {
    auto socket = address_.path.empty() ? connect_to(address_.host, address_.port, deadline)
                                        : connect_to_unix(address_.path);
    if (!socket) {
      const Status& why = socket.status();
      // A path that is too long stays `invalid_argument`. A host name that is unknown now may be
      // known a moment later, so it counts as an absent server.
      const bool unresolved = why.os_errno == 0 && address_.path.empty();
      const bool absent = why.code() == Code::invalid_argument && (unresolved || why.os_errno != 0);
      const Code code = absent ? Code::peer_lost : why.code();
      const char* const hint = unresolved ? "; is the name right?" : "; is Redis running there?";
      return Status(code, why.message() + (absent ? hint : "")).with_errno(why.os_errno);
    }
    if (!address_.tls) {
      stream_ = plain_stream(std::move(*socket));
      return Status::ok();
    }
    auto stream = tls_stream(std::move(*socket), address_.host, address_.tls_options, deadline);
    if (!stream) return stream.status();
    stream_ = std::move(*stream);
    return Status::ok();
  }

  Status log_in(Nanoseconds deadline) {
    if (!address_.user.empty()) {
      NEZHA_RETURN_IF_ERROR(execute({"AUTH", address_.user, address_.password}, deadline).status());
    } else if (!address_.password.empty()) {
      NEZHA_RETURN_IF_ERROR(execute({"AUTH", address_.password}, deadline).status());
    }
    // A user of an access list may lack the right to select, which database 0 does not need.
    if (address_.database != 0) {
      return execute({"SELECT", std::to_string(address_.database)}, deadline).status();
    }
    return address_.password.empty() ? execute({"PING"}, deadline).status() : Status::ok();
  }

  const RedisAddress address_;
  const Nanoseconds patience_;
  const std::string description_;
  const std::string time_to_live_;
  std::mutex mutex_;
  std::unique_ptr<Stream> stream_;  // guarded by mutex_; null when broken
  bool greeted_ = false;            // guarded by mutex_
  Nanoseconds lost_since_ = kNever;  // guarded by mutex_; kNever when the server answered last time
};

}  // namespace

Result<std::unique_ptr<Store>> open_redis_store(RedisAddress address, Nanoseconds deadline,
                                                Nanoseconds patience) {
  auto store = std::make_unique<RedisStore>(std::move(address), patience);
  NEZHA_RETURN_IF_ERROR(store->open(deadline));
  return std::unique_ptr<Store>(std::move(store));
}

}  // namespace nezha::rendezvous
