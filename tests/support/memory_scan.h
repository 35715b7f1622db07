// MemoryScan: looks for a secret in everything of this process that a core dump would contain.
//
// Contract: one thread at a time; other threads may run. It holds the secret only in a form that it does
// not look for, and its own buffer is in no dump.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace nezha::testing {

class MemoryScan {
 public:
  explicit MemoryScan(const std::byte* secret, size_t size) {
    for (size_t i = 0; i < size; ++i) masked_.push_back(secret[i] ^ kMask);
    buffer_ = static_cast<std::byte*>(mmap(nullptr, kBufferBytes, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (buffer_ == MAP_FAILED || madvise(buffer_, kBufferBytes, MADV_DONTDUMP) != 0) std::abort();
  }
  ~MemoryScan() { munmap(buffer_, kBufferBytes); }
  MemoryScan(const MemoryScan&) = delete;
  MemoryScan& operator=(const MemoryScan&) = delete;

  // Where it is: a line of /proc/self/smaps for each place. `read_bytes`: how much was looked at.
  std::vector<std::string> places(size_t* read_bytes) const {
    const int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    std::vector<std::string> found;
    *read_bytes = 0;
    for (const Mapping& each : dumped()) look_at(memory, each, found, read_bytes);
    close(memory);
    return found;
  }
  // The same for a file, such as a core dump.
  std::vector<std::string> places_in(const std::string& path, size_t* read_bytes) const {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    std::vector<std::string> found;
    *read_bytes = 0;
    const off_t size = lseek(file, 0, SEEK_END);
    if (size > 0) look_at(file, {0, static_cast<uintptr_t>(size), path}, found, read_bytes);
    close(file);
    return found;
  }

 private:
  static constexpr std::byte kMask{0xA5};
  static constexpr size_t kBufferBytes = 1 << 20;

  struct Mapping {
    uintptr_t first = 0;
    uintptr_t last = 0;
    std::string line;
  };

  // Readable, not a file's own pages, and not left out of dumps ("dd").
  static std::vector<Mapping> dumped() {
    std::vector<Mapping> found;
    Mapping now;
    bool readable = false;
    std::ifstream maps("/proc/self/smaps");
    for (std::string line; std::getline(maps, line);) {
      if (line.starts_with("VmFlags:")) {
        if (readable && line.find(" dd") == std::string::npos) found.push_back(now);
        continue;
      }
      std::istringstream fields(line);
      char dash = 0;
      std::string rights;
      Mapping next;
      if (fields >> std::hex >> next.first >> dash >> next.last >> rights && dash == '-') {
        next.line = line;
        now = next;
        readable = rights[0] == 'r' && line.find("[v") == std::string::npos;
      }
    }
    return found;
  }

  void look_at(int memory, const Mapping& mapping, std::vector<std::string>& found,
               size_t* read_bytes) const {
    const size_t size = masked_.size();
    for (uintptr_t at = mapping.first; at < mapping.last;) {
      const size_t wanted = std::min<size_t>(kBufferBytes, mapping.last - at);
      const ssize_t got = pread(memory, buffer_, wanted, static_cast<off_t>(at));
      if (got < static_cast<ssize_t>(size)) return;
      *read_bytes += static_cast<size_t>(got);
      const int first = std::to_integer<int>(masked_[0] ^ kMask);
      const std::byte* const last = buffer_ + got - size;
      for (const std::byte* place = buffer_; place <= last; ++place) {
        const auto left = static_cast<size_t>(last - place + 1);
        place = static_cast<const std::byte*>(std::memchr(place, first, left));
        if (place == nullptr) break;
        if (is_here(place)) found.push_back(mapping.line);
      }
      if (static_cast<size_t>(got) < wanted || at + wanted == mapping.last) return;
      at += static_cast<size_t>(got) - size + 1;  // what lies across the border is seen next time
    }
  }

  bool is_here(const std::byte* place) const {
    for (size_t k = 0; k < masked_.size(); ++k) {
      if ((place[k] ^ kMask) != masked_[k]) return false;
    }
    return true;
  }

  std::vector<std::byte> masked_;
  std::byte* buffer_ = nullptr;
};

}  // namespace nezha::testing
