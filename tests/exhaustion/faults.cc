#include "exhaustion/faults.h"

#include <execinfo.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <memory>
#include <new>
#include <system_error>
#include <thread>

namespace nezha::testing {
namespace {

std::atomic<bool> armed{false};
std::atomic<Resource> failing{Resource::descriptor};
std::atomic<long> from{0};
std::atomic<long> until{0};
std::array<std::atomic<long>, kResources> counts{};
std::atomic<long> failed{0};
std::array<void*, 12> path{};
std::atomic<int> depth{0};
thread_local bool is_exempt = false;

// Counts the call; true when it is one that fails.
bool fails(Resource resource) {
  if (!armed.load(std::memory_order_relaxed) || is_exempt) return false;
  const long mine = ++counts[static_cast<size_t>(resource)];
  if (resource != failing || mine < from || mine >= until) return false;
  if (++failed == 1) depth = backtrace(path.data(), static_cast<int>(path.size()));
  return true;
}

int fail_with(int number) {
  errno = number;
  return -1;
}

}  // namespace

std::string_view name_of(Resource resource) {
  static constexpr std::array<std::string_view, kResources> kNames = {"descriptor", "watch", "thread",
                                                                      "buffer", "memory"};
  return kNames[static_cast<size_t>(resource)];
}

void exempt(bool yes) { is_exempt = yes; }

void arm(Resource resource, long first, long how_many) {
  for (auto& count : counts) count = 0;
  failed = 0;
  failing = resource;
  from = first;
  until = first + how_many;
  armed = true;
}

void disarm() { armed = false; }
long calls(Resource resource) { return counts[static_cast<size_t>(resource)]; }
long failures() { return failed; }

std::string first_failure() {
  std::string names;
  char** const symbols = backtrace_symbols(path.data(), depth);
  for (int i = 0; symbols != nullptr && i < depth; ++i) names += std::string("\n  ") + symbols[i];
  std::free(symbols);
  return names;
}

}  // namespace nezha::testing

using nezha::testing::fail_with;
using nezha::testing::fails;
using nezha::testing::Resource;

// What the linker knows the real ones and their stand-ins by.
extern "C" {
int __real_socket(int domain, int type, int protocol);
int __real_socketpair(int domain, int type, int protocol, int* ends);
int __real_accept4(int fd, sockaddr* address, socklen_t* length, int flags);
int __real_epoll_create1(int flags);
int __real_eventfd(unsigned count, int flags);
int __real_memfd_create(const char* name, unsigned flags);
int __real_epoll_ctl(int epoll, int how, int fd, epoll_event* event);
void* __real_aligned_alloc(size_t alignment, size_t size);

int __wrap_socket(int domain, int type, int protocol) {
  return fails(Resource::descriptor) ? fail_with(EMFILE) : __real_socket(domain, type, protocol);
}
int __wrap_socketpair(int domain, int type, int protocol, int* ends) {
  if (fails(Resource::descriptor)) return fail_with(EMFILE);
  return __real_socketpair(domain, type, protocol, ends);
}
int __wrap_accept4(int fd, sockaddr* address, socklen_t* length, int flags) {
  return fails(Resource::descriptor) ? fail_with(EMFILE) : __real_accept4(fd, address, length, flags);
}
int __wrap_epoll_create1(int flags) {
  return fails(Resource::descriptor) ? fail_with(EMFILE) : __real_epoll_create1(flags);
}
int __wrap_eventfd(unsigned count, int flags) {
  return fails(Resource::descriptor) ? fail_with(EMFILE) : __real_eventfd(count, flags);
}
int __wrap_memfd_create(const char* name, unsigned flags) {
  return fails(Resource::descriptor) ? fail_with(EMFILE) : __real_memfd_create(name, flags);
}
int __wrap_epoll_ctl(int epoll, int how, int fd, epoll_event* event) {
  // What is watched already needs no more memory.
  if (how == EPOLL_CTL_ADD && fails(Resource::watch)) return fail_with(ENOSPC);
  return __real_epoll_ctl(epoll, how, fd, event);
}
void* __wrap_aligned_alloc(size_t alignment, size_t size) {
  return fails(Resource::buffer) ? nullptr : __real_aligned_alloc(alignment, size);
}

// std::thread's constructor.
using Start = std::unique_ptr<std::thread::_State>;
void __real__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(
    std::thread* self, Start state, void (*depend)());
void __wrap__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(
    std::thread* self, Start state, void (*depend)()) {
  if (fails(Resource::thread)) {
    throw std::system_error(EAGAIN, std::generic_category(), "no thread");
  }
  __real__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(
      self, std::move(state), depend);
}
}

void* operator new(size_t size) {
  void* memory = fails(Resource::memory) ? nullptr : std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return fails(Resource::memory) ? nullptr : std::malloc(size);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
