#include "rendezvous/tcp_store.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <optional>
#include <vector>

#include "base/log.h"
#include "rendezvous/socket.h"
#include "rendezvous/tcp_protocol.h"
#include "rendezvous/waiting.h"

namespace nezha::rendezvous {
namespace {

constexpr Nanoseconds kFirstPause = 10 * kMillisecond;
constexpr Nanoseconds kLongestPause = 500 * kMillisecond;
constexpr Nanoseconds kGreetingWait = 5 * kSecond;  // for the server's magic, then try again
constexpr Nanoseconds kClosedWait = kSecond;  // a server that closes connections instead is tried so long

Transfer receive_all(const Descriptor& socket, char* at, size_t size, Nanoseconds deadline) {
  while (size > 0) {
    size_t got = size;
    const Transfer transfer = receive_some(socket, at, &got, deadline);
    if (transfer != Transfer::done) return transfer;
    at += got;
    size -= got;
  }
  return Transfer::done;
}

// True for an error that another attempt would not remove, or would make worse.
bool is_permanent(Code code) {
  return code == Code::mismatch || code == Code::unsupported || code == Code::exhausted;
}

class TcpStore final : public Store {
 public:
  TcpStore(const StoreAddress& address, std::unique_ptr<TcpServer> server, std::optional<StoreKey> key)
      : host_(address.host),
        port_(server ? server->port() : address.port),
        description_("tcp://" + host_and_port(host_, port_)),
        key_(std::move(key)),
        server_(std::move(server)) {}

  // Makes the first connection.
  Status open(Nanoseconds deadline) {
    Backoff backoff(kFirstPause, kLongestPause);
    WaitLines lines(system_clock(), deadline, WaitLines::Pace::doubling);
    while (true) {
      Refusal refusal = Refusal::none;
      auto socket = connect(deadline, &refusal);
      if (socket) {
        idle_.push_back(std::move(*socket));
        return Status::ok();
      }
      const Status status = socket.status();
      if (refusal == Refusal::for_good || is_permanent(status.code())) return status;
      if (const int waited = lines.due()) {
        NEZHA_LOG(warn, "store", "waiting for rank 0 to serve the store %s, for %d s now: %s",
                  description_.c_str(), waited, status.message().c_str());
      }
      if (expired(deadline)) {
        return {Code::timed_out, "store " + description_ + ": " + status.message() +
                                     " (tried until the deadline); " +
                                     what_to_check(description_, "rank 0, which serves it,")};
      }
      backoff.sleep(deadline);
    }
  }

  Status set(std::string_view key, std::string_view value, Nanoseconds deadline) override {
    return call(Operation::set, key, value, deadline).status();
  }
  Result<WipedText> get(std::string_view key, Nanoseconds deadline) override {
    return call(Operation::get, key, {}, deadline);
  }
  Result<WipedText> set_if_absent(std::string_view key, std::string_view value,
                                  Nanoseconds deadline) override {
    return call(Operation::set_if_absent, key, value, deadline);
  }
  Status remove(std::string_view key, Nanoseconds deadline) override {
    return call(Operation::remove, key, {}, deadline).status();
  }

  std::string describe() const override { return description_; }

 private:
  enum class Refusal : uint8_t {
    none,
    closed,    // instead of a greeting: a server short of descriptors needed the place
    for_good,  // other attempts would be refused, too
  };

  // Connects, greets and, with a key, proves it, once.
  Result<Descriptor> connect(Nanoseconds deadline, Refusal* refusal) const {
    *refusal = Refusal::none;
    auto socket = connect_to(host_, port_, deadline);
    if (!socket) return socket;
    const Nanoseconds until = system_clock().now() + remaining(deadline, kGreetingWait);
    std::string greeting(kGreetingBytes, '\0');
    Transfer transfer = send_all(*socket, kMagic, until);
    if (transfer == Transfer::done) transfer = receive_all(*socket, greeting.data(), kMagicBytes, until);
    if (transfer != Transfer::done) {
      if (transfer == Transfer::lost) *refusal = Refusal::closed;
      return no_greeting();
    }
    NEZHA_RETURN_IF_ERROR(check_magic(std::string_view(greeting).substr(0, kMagicBytes)));
    if (receive_all(*socket, greeting.data() + kMagicBytes, kGreetingBytes - kMagicBytes, until) !=
        Transfer::done) {
      return no_greeting();
    }
    auto read = decode_greeting(greeting);
    if (!read) {
      return Status(read.status().code(), "store " + description_ + ": " + read.status().message());
    }
    const Status proved = prove(*socket, *read, until);
    if (proved.code() == Code::invalid_argument) *refusal = Refusal::for_good;
    if (!proved) return proved;
    return socket;
  }

  Status no_greeting() const {
    return {Code::peer_lost, host_and_port(host_, port_) +
                                 " accepted the connection but does not greet as a Nezha store"};
  }

  Status check_magic(std::string_view received) const {
    if (received == kMagic) return Status::ok();
    constexpr size_t kName = kMagicBytes - 1;  // then comes the version
    if (received.substr(0, kName) != kMagic.substr(0, kName)) {
      return Status(Code::unsupported, "store " + description_ +
                                           ": something else than a Nezha store answers there; "
                                           "choose another port");
    }
    return error(Code::mismatch,
                 "store %s speaks version %d of the protocol and this rank version %d; install the "
                 "same Nezha everywhere",
                 description_.c_str(), received[kName], kMagic[kName]);
  }

  // A rank with a key proves it to the server first, and then wants the server's proof.
  Status prove(const Descriptor& socket, const Greeting& greeting, Nanoseconds until) const {
    if (key_.has_value() != greeting.wants_proof) {
      const char* what = key_ ? "this rank has a configured secret, but rank 0 has none"
                              : "the job has a configured secret, but this rank has none";
      return error(Code::invalid_argument, "%s (store %s); set NEZHA_SECRET_FILE on every rank or on "
                   "none", what, description_.c_str());
    }
    if (!key_) return Status::ok();
    auto nonce = fresh_store_nonce();
    if (!nonce) return nonce.status();
    const std::string proof = *nonce + store_mac_of(*key_, StoreSide::client, greeting.nonce, *nonce);
    std::string verdict(kVerdictBytes, '\0');
    if (send_all(socket, proof, until) != Transfer::done ||
        receive_all(socket, verdict.data(), verdict.size(), until) != Transfer::done) {
      return no_greeting();
    }
    if (same_store_mac(store_mac_of(*key_, StoreSide::server, greeting.nonce, *nonce), verdict)) {
      return Status::ok();
    }
    return error(Code::invalid_argument, "this rank has another secret than rank 0, or the server at %s "
                 "is not rank 0 of this job; give all ranks of a job the same one "
                 "(NEZHA_SECRET_FILE)", description_.c_str());
  }

  Result<Descriptor> take_connection(Nanoseconds deadline, Refusal* refusal) {
    {
      const std::lock_guard lock(mutex_);
      while (!idle_.empty()) {
        Descriptor socket = std::move(idle_.back());
        idle_.pop_back();
        if (is_quiet(socket)) return socket;
      }
    }
    const Nanoseconds until = std::min(deadline, system_clock().now() + kClosedWait);
    for (Backoff backoff(kFirstPause, kLongestPause);; backoff.sleep(until)) {
      auto socket = connect(deadline, refusal);
      if (socket || *refusal != Refusal::closed || expired(until)) return socket;
    }
  }

  Result<WipedText> call(Operation operation, std::string_view key, std::string_view value,
                         Nanoseconds deadline) {
    Refusal refusal = Refusal::none;
    auto socket = take_connection(deadline, &refusal);
    if (!socket) {
      const Status& why = socket.status();
      if (refusal == Refusal::for_good || is_permanent(why.code())) {
        return store_error(why.code(), description_, name_of(operation), key, why.message());
      }
      if (expired(deadline)) return store_timed_out(description_, name_of(operation), key);
      return lost(operation, key, why.message());
    }
    Result<AnswerHead> head = AnswerHead();
    WipedText answer;
    const Transfer transfer =
        exchange(*socket, operation, key, value, deadline, head, answer);
    if (transfer == Transfer::timed_out) {
      return store_timed_out(description_, name_of(operation), key);  // closing cancels a get
    }
    if (transfer == Transfer::lost) return lost(operation, key, "the connection is closed");
    if (!head) {
      return store_error(Code::internal, description_, name_of(operation), key,
                         head.status().message() + "; is something else between this rank and the "
                                                   "store?");
    }
    {
      const std::lock_guard lock(mutex_);
      idle_.push_back(std::move(*socket));
    }
    if (head->code == Code::ok) return answer;
    return store_error(head->code, description_, name_of(operation), key,
                       meaning_of(head->code));
  }

  static std::string meaning_of(Code code) {
    if (code == Code::exhausted) {
      return "the server's memory is full; remove keys or use smaller values";
    }
    if (code != Code::mismatch) return "the server refused";
    return "another job is served there; give all ranks of a job the same job name, and jobs that run at "
           "the same time their own port";
  }

  static Transfer exchange(const Descriptor& socket, Operation operation, std::string_view key,
                           std::string_view value, Nanoseconds deadline,
                           Result<AnswerHead>& head, WipedText& answer) {
    const auto request_head = encode_request_head(operation, key.size(), value.size());
    WipedText request(request_head.data(), request_head.size());
    request.reserve(request.size() + key.size() + value.size());
    request.append(key).append(value);
    if (const Transfer sent = send_all(socket, request, deadline); sent != Transfer::done) {
      return sent;
    }
    std::array<char, kAnswerHeadBytes> bytes{};
    const Transfer received = receive_all(socket, bytes.data(), bytes.size(), deadline);
    if (received != Transfer::done) return received;
    head = decode_answer_head(bytes);
    if (!head) return Transfer::done;  // nothing that follows can be believed
    answer.resize(head->value_bytes);
    return receive_all(socket, answer.data(), answer.size(), deadline);
  }

  Status lost(Operation operation, std::string_view key, const std::string& why) const {
    return store_error(Code::peer_lost, description_, name_of(operation), key,
                       why + "; the process that serves the store has ended or cannot be reached");
  }

  const std::string host_;
  const uint16_t port_;
  const std::string description_;
  const std::optional<StoreKey> key_;
  std::mutex mutex_;
  std::vector<Descriptor> idle_;  // guarded by mutex_; connections without a call
  const std::unique_ptr<TcpServer> server_;
};

}  // namespace

Result<std::unique_ptr<Store>> open_tcp_store(const StoreAddress& address,
                                              std::unique_ptr<TcpServer> server,
                                              Nanoseconds deadline, std::optional<StoreKey> key) {
  auto store = std::make_unique<TcpStore>(address, std::move(server), std::move(key));
  NEZHA_RETURN_IF_ERROR(store->open(deadline));
  return std::unique_ptr<Store>(std::move(store));
}

}  // namespace nezha::rendezvous
