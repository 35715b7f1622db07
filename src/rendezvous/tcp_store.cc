#include "rendezvous/tcp_store.h"

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

// What trying again would not change, or only for the worse.
bool will_not_mend(Code code) {
  return code == Code::mismatch || code == Code::unsupported || code == Code::exhausted;
}

class TcpStore final : public Store {
 public:
  TcpStore(const StoreAddress& address, std::unique_ptr<TcpServer> server)
      : host_(address.host),
        port_(server ? server->port() : address.port),
        description_("tcp://" + host_and_port(host_, port_)),
        server_(std::move(server)) {}

  // The first connection.
  Status open(Nanoseconds deadline) {
    Backoff backoff(kFirstPause, kLongestPause);
    for (bool told = false;; told = true) {
      auto socket = connect(deadline);
      if (socket) {
        idle_.push_back(std::move(*socket));
        return Status::ok();
      }
      const Status status = socket.status();
      if (will_not_mend(status.code())) return status;
      if (!told) NEZHA_LOG(info, "store", "%s; trying again", status.message().c_str());
      if (expired(deadline)) {
        return {Code::timed_out, "store " + description_ + ": " + status.message() +
                                     " (tried until the deadline); is the rank that serves the "
                                     "store running, and is the port open?"};
      }
      backoff.sleep(deadline);
    }
  }

  Status set(std::string_view key, std::string_view value, Nanoseconds deadline) override {
    return call(Operation::set, key, value, deadline).status();
  }
  Result<std::string> get(std::string_view key, Nanoseconds deadline) override {
    return call(Operation::get, key, {}, deadline);
  }
  Result<std::string> set_if_absent(std::string_view key, std::string_view value,
                                    Nanoseconds deadline) override {
    return call(Operation::set_if_absent, key, value, deadline);
  }
  Status remove(std::string_view key, Nanoseconds deadline) override {
    return call(Operation::remove, key, {}, deadline).status();
  }

  std::string describe() const override { return description_; }

 private:
  // Connects and exchanges magics, once.
  Result<Descriptor> connect(Nanoseconds deadline) const {
    auto socket = connect_to(host_, port_, deadline);
    if (!socket) return socket;
    const Nanoseconds until = system_clock().now() + remaining(deadline, kGreetingWait);
    std::array<char, kMagicBytes> magic{};
    if (send_all(*socket, kMagic, until) != Transfer::done ||
        receive_all(*socket, magic.data(), magic.size(), until) != Transfer::done) {
      return Status(Code::peer_lost, host_and_port(host_, port_) +
                                         " accepted the connection but does not greet as a Nezha "
                                         "store");
    }
    const std::string_view received(magic.data(), magic.size());
    if (received == kMagic) return socket;
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

  Result<Descriptor> take_connection(Nanoseconds deadline) {
    {
      const std::lock_guard lock(mutex_);
      while (!idle_.empty()) {
        Descriptor socket = std::move(idle_.back());
        idle_.pop_back();
        if (is_quiet(socket)) return socket;
      }
    }
    return connect(deadline);
  }

  Result<std::string> call(Operation operation, std::string_view key, std::string_view value,
                           Nanoseconds deadline) {
    auto socket = take_connection(deadline);
    if (!socket) {
      const Status& why = socket.status();
      if (will_not_mend(why.code())) {
        return store_error(why.code(), description_, name_of(operation), key, why.message());
      }
      if (expired(deadline)) return store_timed_out(description_, name_of(operation), key);
      return lost(operation, key, why.message());
    }
    Result<AnswerHead> head = AnswerHead();
    std::string answer;
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
                       meaning_of(head->code, answer));
  }

  static std::string meaning_of(Code code, std::string_view said) {
    if (code == Code::exhausted) {
      return "the server's memory is full; remove keys or use smaller values";
    }
    if (code != Code::mismatch) return "the server refused";
    constexpr size_t kShown = 100;
    return "another job, '" + std::string(said.substr(0, kShown)) + "', is served there; give all ranks "
           "of a job the same job name, and jobs that run at the same time their own port";
  }

  static Transfer exchange(const Descriptor& socket, Operation operation, std::string_view key,
                           std::string_view value, Nanoseconds deadline,
                           Result<AnswerHead>& head, std::string& answer) {
    const auto request_head = encode_request_head(operation, key.size(), value.size());
    std::string request(request_head.data(), request_head.size());
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
  std::mutex mutex_;
  std::vector<Descriptor> idle_;  // by mutex_; connections without a call
  const std::unique_ptr<TcpServer> server_;
};

}  // namespace

Result<std::unique_ptr<Store>> open_tcp_store(const StoreAddress& address,
                                              std::unique_ptr<TcpServer> server,
                                              Nanoseconds deadline) {
  auto store = std::make_unique<TcpStore>(address, std::move(server));
  NEZHA_RETURN_IF_ERROR(store->open(deadline));
  return std::unique_ptr<Store>(std::move(store));
}

}  // namespace nezha::rendezvous
