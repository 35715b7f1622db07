#include "support/store_proxy.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>
#include <vector>

namespace nezha::testing {
namespace {

constexpr int kTurn_ms = 20;
constexpr size_t kDripped = 64;  // then the rest at once

Nanoseconds soon() { return system_clock().now() + kSecond; }

// "" when the connection has ended.
std::string read_some(const Descriptor& socket) {
  std::array<char, 65536> part;
  const ssize_t got = recv(socket.get(), part.data(), part.size(), MSG_DONTWAIT);
  return got > 0 ? std::string(part.data(), static_cast<size_t>(got)) : std::string();
}

void say(const Descriptor& socket, std::string_view words) {
  rendezvous::send_all(socket, words, soon());
}

}  // namespace

StoreProxy::StoreProxy(std::string server_host, uint16_t server_port, Spoil spoil, int at)
    : host_(std::move(server_host)), server_port_(server_port), spoil_(std::move(spoil)), at_(at) {
  auto listener = rendezvous::listen_on("127.0.0.1", 0);
  if (!listener) return;
  listener_ = std::move(*listener);
  port_ = rendezvous::port_of(listener_);
  thread_ = std::thread([this] { run(); });
}

StoreProxy::~StoreProxy() {
  over_ = true;
  if (thread_.joinable()) thread_.join();
}

void StoreProxy::run() {
  while (!over_) turn();
  pairs_.clear();
}

void StoreProxy::turn() {
  std::vector<pollfd> entries = {{listener_.get(), POLLIN, 0}};
  for (const Pair& pair : pairs_) {
    entries.push_back({pair.client.get(), POLLIN, 0});
    entries.push_back({pair.server.get(), POLLIN, 0});
  }
  if (poll(entries.data(), entries.size(), kTurn_ms) <= 0) return;
  size_t next = 1;
  for (Pair& pair : pairs_) {
    const bool client_speaks = entries[next].revents != 0;
    const bool server_speaks = entries[next + 1].revents != 0;
    next += 2;
    if (client_speaks && !pair.over) from_client(pair);
    if (server_speaks && !pair.over) from_server(pair);
  }
  std::erase_if(pairs_, [](const Pair& pair) { return pair.over; });
  if (entries[0].revents != 0 && !over_) accept_client();
}

void StoreProxy::accept_client() {
  Descriptor client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!client) return;
  if (to_close_ > 0) {
    --to_close_;
    return;
  }
  auto server = rendezvous::connect_to(host_, server_port_, soon());
  if (!server) return;  // as the client would see it: accepted, then closed
  Pair& pair = pairs_.emplace_back();
  pair.client = std::move(client);
  pair.server = std::move(*server);
}

void StoreProxy::from_client(Pair& pair) {
  const std::string request = read_some(pair.client);
  if (request.empty()) {
    pair.over = true;
    return;
  }
  pair.asked = true;
  say(pair.server, request);
}

void StoreProxy::from_server(Pair& pair) {
  const std::string answer = read_some(pair.server);
  if (answer.empty()) {
    pair.over = true;
    return;
  }
  const bool due = std::exchange(pair.asked, false) && ++answers_ == at_;
  if (due && spoil_.kind != Spoil::Kind::nothing) {
    spoilt_ = true;
    spoil(pair, answer);
  } else if (!pair.deaf) {
    say(pair.client, answer);
  }
}

void StoreProxy::spoil(Pair& pair, std::string answer) {
  using Kind = Spoil::Kind;
  switch (spoil_.kind) {
    case Kind::nothing: return;
    case Kind::reset: {
      const linger at_once{1, 0};
      setsockopt(pair.client.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
      pair.over = true;
      return;
    }
    case Kind::gone:
      for (Pair& each : pairs_) each.over = true;
      listener_.reset(-1);
      over_ = true;
      return;
    case Kind::close: pair.over = true; return;
    case Kind::cut:
      say(pair.client, std::string_view(answer).substr(0, std::min(spoil_.bytes, answer.size() - 1)));
      pair.over = true;
      return;
    case Kind::replace: say(pair.client, spoil_.words); return;
    case Kind::twice: say(pair.client, answer + answer); return;
    case Kind::silence: pair.deaf = true; return;
    case Kind::late:
      std::this_thread::sleep_for(std::chrono::milliseconds(250));
      say(pair.client, answer);
      return;
    case Kind::drip:
      for (size_t i = 0; i < std::min(kDripped, answer.size()); ++i) {
        say(pair.client, std::string_view(answer).substr(i, 1));
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      if (answer.size() > kDripped) say(pair.client, std::string_view(answer).substr(kDripped));
      return;
  }
}

}  // namespace nezha::testing
