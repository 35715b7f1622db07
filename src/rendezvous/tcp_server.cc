#include "rendezvous/tcp_server.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <set>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "base/socket_address.h"
#include "rendezvous/address.h"
#include "rendezvous/client_places.h"
#include "rendezvous/socket.h"
#include "rendezvous/store_table.h"
#include "rendezvous/tcp_protocol.h"

namespace nezha::rendezvous {
namespace {

constexpr ClientId kListener = 0;  // epoll's names for what is no client
constexpr ClientId kWakeUp = 1;
constexpr ClientId kFirstClient = 2;
constexpr size_t kReadBytes = 64 * 1024;
constexpr int kReadsPerTurn = 8;  // then the other clients have theirs
constexpr int kAcceptsPerTurn = 64;
constexpr Nanoseconds kAcceptPause = 100 * kMillisecond;

struct Client {
  Client(Descriptor&& accepted, MemoryBudget& budget, bool wants_proof)
      : socket(std::move(accepted)), reader(budget, wants_proof), is_admitted(!wants_proof) {}

  enum class Stage : uint8_t { reading, waiting, answering };

  Descriptor socket;
  RequestReader reader;
  bool is_admitted;         // has proved that it belongs to the job, where that is asked
  bool in_service = false;  // has been told so: whatever it reads next is an answer
  std::string nonce;        // ours, that it has to prove it with
  Stage stage = Stage::reading;
  bool asking = false;                // a part of a request has come
  std::string head;                   // what is being sent, first part
  std::shared_ptr<const Blob> value;  // second part
  size_t sent = 0;
  Nanoseconds deadline = kNever;
  uint32_t events = EPOLLIN | EPOLLRDHUP;  // what epoll watches for
};

class EpollServer final : public TcpServer {
 public:
  EpollServer(Descriptor listener, Descriptor epoll, Descriptor wake_up, size_t memory_bytes,
              std::string prefix, std::optional<StoreKey> key, size_t places)
      : listener_(std::move(listener)),
        epoll_(std::move(epoll)),
        wake_up_(std::move(wake_up)),
        port_(port_of(listener_)),
        prefix_(std::move(prefix)),
        key_(std::move(key)),
        budget_{memory_bytes, 0},
        table_(budget_),
        places_(places, places / 4 * 3) {}

  ~EpollServer() override {
    const uint64_t one = 1;
    NEZHA_CHECK(write(wake_up_.get(), &one, sizeof(one)) == sizeof(one));
    if (thread_.joinable()) thread_.join();
  }

  // Apart from the constructor because it can fail.
  Status run_in_thread() {
    if (!watch(EPOLL_CTL_ADD, wake_up_, EPOLLIN, kWakeUp) ||
        !watch(EPOLL_CTL_ADD, listener_, EPOLLIN, kListener)) {
      return error(Code::exhausted, "cannot watch the store server's port: %s; raise "
                   "fs.epoll.max_user_watches", std::strerror(errno)).with_errno(errno);
    }
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error& failure) {
      return error(Code::exhausted, "cannot start the store server's thread: %s", failure.what());
    }
    return Status::ok();
  }

  uint16_t port() const override { return port_; }

 private:
  void run() {
    Nanoseconds farewell = kNever;
    while (farewell == kNever || (answering_ > 0 && system_clock().now() < farewell)) {
      std::array<epoll_event, 64> events;
      const int count = epoll_wait(epoll_.get(), events.data(),
                                   static_cast<int>(events.size()),
                                   milliseconds_to_sleep(farewell));
      for (int i = 0; i < count; ++i) {
        if (events[i].data.u64 == kWakeUp) {
          if (farewell == kNever) farewell = system_clock().now() + kFarewellTime;
          watch(EPOLL_CTL_DEL, wake_up_, 0, kWakeUp);
          continue;
        }
        try {
          take_turn(events[i]);
        } catch (const std::bad_alloc&) {
          drop_all();
        }
      }
      drop_late();
    }
    clients_.clear();
  }

  void take_turn(const epoll_event& event) {
    const ClientId id = event.data.u64;
    if (id == kListener) return accept_clients();
    serve(id, event.events);
  }

  // Memory ran out, and nobody knows which answers are lost: whoever may wait for one hears why. To
  // those that are not greeted yet that would make no sense: their connections only close.
  void drop_all() {
    const auto head = encode_answer_head(Code::exhausted, 0);
    while (!clients_.empty()) {
      const auto& [id, client] = *clients_.begin();
      const bool has_answer = client->stage == Client::Stage::answering && client->sent > 0;
      if (client->in_service && !has_answer) {
        send(client->socket.get(), head.data(), head.size(), MSG_NOSIGNAL);
      }
      drop(id, "no memory");
    }
  }

  int milliseconds_to_sleep(Nanoseconds farewell) const {
    Nanoseconds until = std::min(farewell, accept_again_);
    if (!deadlines_.empty()) until = std::min(until, deadlines_.begin()->first);
    if (until == kNever) return -1;
    const Nanoseconds left = std::max<Nanoseconds>(0, until - system_clock().now());
    return static_cast<int>((left + kMillisecond - 1) / kMillisecond);
  }

  // Only adding can fail.
  bool watch(int how, const Descriptor& socket, uint32_t events, ClientId id) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = id;
    return epoll_ctl(epoll_.get(), how, socket.get(), &event) == 0;
  }

  void want(ClientId id, Client& client, uint32_t events) {
    if (client.events == events) return;
    client.events = events;
    watch(EPOLL_CTL_MOD, client.socket, events, id);
  }

  void accept_clients() {
    for (int i = 0; i < kAcceptsPerTurn; ++i) {
      SocketAddress from;
      Descriptor socket(accept4(listener_.get(), from.get(), &from.length,
                                SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket) {
        if (errno == EAGAIN || errno == EWOULDBLOCK) return;
        const int number = errno;
        if (number == EMFILE || number == ENFILE || number == ENOBUFS || number == ENOMEM) {
          // A process with few descriptors is full before its places are.
          if (const auto stranger = places_.oldest_stranger()) {
            drop(*stranger, "it had asked nothing when descriptors were short");
            continue;
          }
          // The listener stays readable; without a pause this would spin until others close.
          NEZHA_LOG(warn, "store", "cannot accept on port %d: %s; trying again", port_,
                    std::strerror(number));
          watch(EPOLL_CTL_MOD, listener_, 0, kListener);
          accept_again_ = system_clock().now() + kAcceptPause;
          return;
        }
        continue;  // this one connection failed before we took it
      }
      const std::string address = numeric_host(from.get());
      std::optional<ClientId> leaves;
      if (!places_.has_room(address, &leaves)) {
        NEZHA_LOG(debug, "store", "port %d: one connection too many of %s is refused", port_,
                  address.c_str());
        continue;
      }
      if (leaves) drop(*leaves, "it had asked nothing when others needed its place");
      set_connection_options(socket);
      const ClientId id = next_id_++;
      const auto entry =
          clients_.emplace(id, std::make_unique<Client>(std::move(socket), budget_, key_.has_value()))
              .first;
      places_.add(id, address);
      if (!watch(EPOLL_CTL_ADD, entry->second->socket, entry->second->events, id)) {
        drop(id, std::strerror(errno));
        continue;
      }
      set_deadline(id, *entry->second, system_clock().now() + kGreetingTime);
    }
  }

  void set_deadline(ClientId id, Client& client, Nanoseconds deadline) {
    if (client.deadline == deadline) return;
    if (client.deadline != kNever) deadlines_.erase({client.deadline, id});
    client.deadline = deadline;
    if (deadline != kNever) deadlines_.insert({deadline, id});
  }

  void drop_late() {
    const Nanoseconds now = system_clock().now();
    if (now >= accept_again_) {
      accept_again_ = kNever;
      watch(EPOLL_CTL_MOD, listener_, EPOLLIN, kListener);
    }
    while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
      drop(deadlines_.begin()->second, "too slow");
    }
  }

  void drop(ClientId id, const char* why) {
    const auto entry = clients_.find(id);
    if (entry == clients_.end()) return;
    Client& client = *entry->second;
    NEZHA_LOG(debug, "store", "port %d: connection %llu closed: %s", port_,
              static_cast<unsigned long long>(id), why);
    if (client.stage == Client::Stage::answering) --answering_;
    set_deadline(id, client, kNever);
    table_.forget(id);
    places_.remove(id);
    clients_.erase(entry);
  }

  void serve(ClientId id, uint32_t events) {
    const auto entry = clients_.find(id);
    if (entry == clients_.end()) return;  // closed earlier in this turn
    Client& client = *entry->second;
    if (client.stage != Client::Stage::reading && (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))) {
      return drop(id, "the client left");
    }
    if (client.stage == Client::Stage::answering) send_on(id, client);
    else if (client.stage == Client::Stage::reading) read_on(id, client);
  }

  void read_on(ClientId id, Client& client) {
    std::array<char, kReadBytes> buffer;
    for (int turn = 0; turn < kReadsPerTurn; ++turn) {
      const ssize_t got = recv(client.socket.get(), buffer.data(),
                               std::min(buffer.size(), client.reader.wanted()), 0);
      if (got == 0) return drop(id, "the client left");
      if (got < 0) {
        if (errno == EINTR) continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK) return drop(id, std::strerror(errno));
        return;
      }
      const auto outcome = client.reader.feed({buffer.data(), static_cast<size_t>(got)});
      wipe(buffer.data(), static_cast<size_t>(got));
      switch (outcome) {
        case RequestReader::Outcome::refused:
          return drop(id, client.reader.greeted() ? "not a request" : "not a Nezha store's client");
        case RequestReader::Outcome::other_version:
          // So short that it is taken at once; the client reads ours and says what is wrong.
          send(client.socket.get(), kMagic.data(), kMagic.size(), MSG_NOSIGNAL);
          return drop(id, "another version");
        case RequestReader::Outcome::more:
          if (client.reader.greeted() && !client.asking) {
            client.asking = true;
            set_deadline(id, client, system_clock().now() + kRequestTime);
          }
          break;
        case RequestReader::Outcome::greeted:
          return greet(id, client);
        case RequestReader::Outcome::proof:
          return judge(id, client);
        case RequestReader::Outcome::request:
          client.asking = false;
          set_deadline(id, client, kNever);
          return answer(id, client);
      }
    }
  }

  void greet(ClientId id, Client& client) {
    auto nonce = fresh_store_nonce();
    if (!nonce) return drop(id, nonce.status().message().c_str());
    client.nonce = std::move(*nonce);
    if (client.is_admitted) set_deadline(id, client, kNever);
    begin_sending(id, client, encode(Greeting{key_.has_value(), client.nonce}), nullptr);
  }

  void judge(ClientId id, Client& client) {
    const std::string_view its_nonce = client.reader.proof().substr(0, kStoreNonceBytes);
    const std::string_view its_mac = client.reader.proof().substr(kStoreNonceBytes);
    if (!same_store_mac(store_mac_of(*key_, StoreSide::client, client.nonce, its_nonce), its_mac)) {
      const std::string refusal(kVerdictBytes, '\0');  // so short that it is taken at once
      send(client.socket.get(), refusal.data(), refusal.size(), MSG_NOSIGNAL);
      return drop(id, "another secret than the job's");
    }
    client.is_admitted = true;
    places_.trust(id);
    begin_sending(id, client, store_mac_of(*key_, StoreSide::server, client.nonce, its_nonce), nullptr);
  }

  void answer(ClientId id, Client& client) {
    std::vector<Answer> answers;
    client.stage = Client::Stage::waiting;
    Request request = client.reader.take_request();
    if (!request.too_much && !request.key.starts_with(prefix_)) {
      answers.push_back({id, Code::mismatch, nullptr});
    } else {
      if (!request.too_much) places_.trust(id);
      table_.handle(id, std::move(request), answers);
    }
    const bool waits = std::none_of(answers.begin(), answers.end(),
                                    [id](const Answer& one) { return one.client == id; });
    if (waits) want(id, client, EPOLLRDHUP);
    for (Answer& one : answers) {
      const auto entry = clients_.find(one.client);
      if (entry == clients_.end()) continue;
      const size_t size = one.value ? one.value->bytes().size() : 0;
      const auto head = encode_answer_head(one.code, size);
      begin_sending(one.client, *entry->second, std::string(head.data(), head.size()),
                    std::move(one.value));
    }
  }

  void begin_sending(ClientId id, Client& client, std::string head,
                     std::shared_ptr<const Blob> value) {
    client.stage = Client::Stage::answering;
    ++answering_;
    client.head = std::move(head);
    client.value = std::move(value);
    client.sent = 0;
    // A client that takes no answers holds memory; it has as long as for a request. Who has to prove
    // something has the time of the greeting for all of it.
    if (client.is_admitted) set_deadline(id, client, system_clock().now() + kRequestTime);
    send_on(id, client);
  }

  void send_on(ClientId id, Client& client) {
    for (;;) {
      const bool in_head = client.sent < client.head.size();
      const std::string_view part =
          in_head ? std::string_view(client.head).substr(client.sent)
          : client.value
              ? std::string_view(client.value->bytes()).substr(client.sent - client.head.size())
              : std::string_view();
      if (part.empty()) break;
      const bool more = in_head && client.value && !client.value->bytes().empty();
      const ssize_t sent = send(client.socket.get(), part.data(), part.size(),
                                MSG_NOSIGNAL | (more ? MSG_MORE : 0));
      if (sent < 0) {
        if (errno == EINTR) continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK) return drop(id, std::strerror(errno));
        return want(id, client, EPOLLOUT | EPOLLRDHUP);
      }
      client.sent += static_cast<size_t>(sent);
    }
    client.value.reset();
    client.stage = Client::Stage::reading;
    --answering_;
    if (client.is_admitted) {
      client.in_service = true;
      set_deadline(id, client,
                   places_.is_trusted(id) ? kNever : system_clock().now() + kFirstRequestTime);
    }
    want(id, client, EPOLLIN | EPOLLRDHUP);
  }

  const Descriptor listener_;
  const Descriptor epoll_;
  const Descriptor wake_up_;
  const uint16_t port_;
  const std::string prefix_;
  const std::optional<StoreKey> key_;
  // Everything below belongs to the thread. The budget outlives what is charged to it.
  MemoryBudget budget_;
  StoreTable table_;
  std::unordered_map<ClientId, std::unique_ptr<Client>> clients_;
  ClientPlaces places_;
  std::set<std::pair<Nanoseconds, ClientId>> deadlines_;
  ClientId next_id_ = kFirstClient;
  size_t answering_ = 0;
  Nanoseconds accept_again_ = kNever;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<TcpServer>> TcpServer::start(const std::string& host, uint16_t port,
                                                    size_t memory_bytes, std::string prefix,
                                                    std::optional<StoreKey> key, size_t places) {
  auto listener = listen_on(host, port);
  if (!listener) return listener.status();
  Descriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  Descriptor wake_up(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll || !wake_up) {
    return error(Code::exhausted, "cannot make the store server for %s: %s",
                 host_and_port(host, port).c_str(), std::strerror(errno));
  }
  auto server = std::make_unique<EpollServer>(std::move(*listener), std::move(epoll),
                                              std::move(wake_up), memory_bytes,
                                              std::move(prefix), std::move(key), places);
  NEZHA_RETURN_IF_ERROR(server->run_in_thread());
  return std::unique_ptr<TcpServer>(std::move(server));
}

}  // namespace nezha::rendezvous
