#include "fabric/fabric_sockets.h"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/fork_guard.h"

namespace nezha::transport {
namespace {

struct Known {
  std::mutex mutex;
  std::multiset<std::string> ends;
  std::vector<int> held;  // held from before a fork until after it
};

Known& known() {
  static Known* const all = new Known();  // a fork may come later than the last destructor
  return *all;
}

// Port and address of a socket address, without its other fields; "" for anything else.
std::string end_of(std::string_view name) {
  sockaddr_storage storage{};
  std::memcpy(&storage, name.data(), std::min(name.size(), sizeof(storage)));
  std::string end;
  if (storage.ss_family == AF_INET && name.size() >= sizeof(sockaddr_in)) {
    const auto* const in = reinterpret_cast<const sockaddr_in*>(&storage);
    end.append(reinterpret_cast<const char*>(&in->sin_port), sizeof(in->sin_port));
    end.append(reinterpret_cast<const char*>(&in->sin_addr), sizeof(in->sin_addr));
  } else if (storage.ss_family == AF_INET6 && name.size() >= sizeof(sockaddr_in6)) {
    const auto* const in = reinterpret_cast<const sockaddr_in6*>(&storage);
    end.append(reinterpret_cast<const char*>(&in->sin6_port), sizeof(in->sin6_port));
    end.append(reinterpret_cast<const char*>(&in->sin6_addr), sizeof(in->sin6_addr));
  }
  return end;
}

using Namer = int (*)(int, sockaddr*, socklen_t*);

bool is_known(const std::multiset<std::string>& ends, int fd) {
  for (const Namer ask : {Namer{getsockname}, Namer{getpeername}}) {
    sockaddr_storage storage{};
    socklen_t length = sizeof(storage);
    if (ask(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) continue;
    const std::string end = end_of({reinterpret_cast<const char*>(&storage), length});
    if (!end.empty() && ends.contains(end)) return true;
  }
  return false;
}

// The open sockets of this process whose local or remote address is in `ends`.
std::vector<int> find_sockets(const std::multiset<std::string>& ends) {
  std::vector<int> found;
  if (ends.empty()) return found;
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return found;
  while (const dirent* const entry = readdir(folder)) {
    const int fd = std::atoi(entry->d_name);
    if (fd != dirfd(folder) && entry->d_name[0] != '.' && is_known(ends, fd)) found.push_back(fd);
  }
  closedir(folder);
  return found;
}

void before_fork() {
  Known& all = known();
  all.mutex.lock();
  all.held = find_sockets(all.ends);
  for (const int fd : all.held) hold_descriptor(fd);
}

// The descriptors stay open: they are libfabric's, which closes them when it likes.
void in_parent() {
  Known& all = known();
  for (const int fd : all.held) drop_descriptor(fd);
  all.held.clear();
  all.mutex.unlock();
}

// The handler of base/fork_guard.h has closed the held descriptors, or will.
void in_child() {
  known().held.clear();
  known().mutex.unlock();
}

}  // namespace

void note_fabric_address(std::string_view name) {
  // Installed after the handler of base/fork_guard.h, which has to find in the child the
  // descriptors that are held here.
  static const int installed = (process_generation(), pthread_atfork(before_fork, in_parent, in_child));
  static_cast<void>(installed);
  const std::string end = end_of(name);
  if (end.empty()) return;
  Known& all = known();
  const std::lock_guard lock(all.mutex);
  all.ends.insert(end);
}

void forget_fabric_address(std::string_view name) {
  Known& all = known();
  const std::lock_guard lock(all.mutex);
  const auto found = all.ends.find(end_of(name));
  if (found != all.ends.end()) all.ends.erase(found);
}

void close_fabric_sockets_on_exec() {
  Known& all = known();
  const std::lock_guard lock(all.mutex);
  for (const int fd : find_sockets(all.ends)) fcntl(fd, F_SETFD, FD_CLOEXEC);
}

void hang_up_fabric_address(std::string_view name) {
  const std::string end = end_of(name);
  if (end.empty()) return;
  for (const int fd : find_sockets({end})) shutdown(fd, SHUT_RDWR);
}

}  // namespace nezha::transport
