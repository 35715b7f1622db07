#include "support/sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "rendezvous/socket.h"

namespace nezha::testing {
namespace {

struct Local {
  std::string address;
  int port = 0;
};

bool is_listening(int fd) {
  int listening = 0;
  socklen_t length = sizeof(listening);
  return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) == 0 && listening != 0;
}

bool local_of(int fd, Local* local) {
  sockaddr_in here{};
  socklen_t length = sizeof(here);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&here), &length) != 0) return false;
  if (here.sin_family != AF_INET) return false;
  char text[INET_ADDRSTRLEN] = "";
  inet_ntop(AF_INET, &here.sin_addr, text, sizeof(text));
  *local = {text, ntohs(here.sin_port)};
  return true;
}

template <class Visit>
void for_each_descriptor(Visit visit) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    visit(std::stoi(entry.path().filename().string()));
  }
}

}  // namespace

std::vector<int> connections_of(const std::string& address) {
  std::vector<int> found;
  for_each_descriptor([&](int fd) {
    Local local;
    if (local_of(fd, &local) && local.address == address && !is_listening(fd)) found.push_back(fd);
  });
  return found;
}

std::vector<int> listening_ports_of(const std::string& address) {
  std::vector<int> found;
  for_each_descriptor([&](int fd) {
    Local local;
    if (local_of(fd, &local) && local.address == address && is_listening(fd)) {
      found.push_back(local.port);
    }
  });
  return found;
}

int break_rail(const std::string& address) {
  const std::vector<int> found = connections_of(address);
  for (const int fd : found) shutdown(fd, SHUT_RDWR);
  return static_cast<int>(found.size());
}

int open_descriptors() {
  int count = 0;
  for_each_descriptor([&](int) { ++count; });
  return count;
}

sockaddr_in place(const std::string& address, int port) {
  sockaddr_in made{};
  made.sin_family = AF_INET;
  made.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, address.c_str(), &made.sin_addr);
  return made;
}

int dial(const std::string& address, int port) {
  const sockaddr_in there = place(address, port);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&there), sizeof(there)) == 0) return fd;
  close(fd);
  return -1;
}

std::string fresh_host() {
  static std::atomic<int> number{getpid() % 200 * 256};
  const int mine = ++number;
  return "127." + std::to_string(100 + mine / 65536 % 100) + "." + std::to_string(mine / 256 % 256) +
         "." + std::to_string(mine % 254 + 1);
}

uint16_t free_port_of(const std::string& host) {
  const auto socket = rendezvous::listen_on(host, 0);
  return socket ? rendezvous::port_of(socket.value()) : 0;
}

int keep_port(const std::string& host, uint16_t port) {
  const sockaddr_in mine = place(host, port);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(fd, reinterpret_cast<const sockaddr*>(&mine), sizeof(mine)) == 0) return fd;
  close(fd);
  return -1;
}

}  // namespace nezha::testing
