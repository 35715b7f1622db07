#include "base/sealed_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace nezha {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Status memory_error(Code code, const char* what) {
  return error(code, "%s: %s", what, std::strerror(errno)).with_errno(errno);
}

}  // namespace

Result<std::unique_ptr<SealedMemory>> SealedMemory::create(size_t bytes, size_t reserved,
                                                           Descriptor* memory) {
  // A file size limit would end the process.
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes) {
    return error(Code::exhausted, "the limit of file sizes (ulimit -f) is below %zu KiB", bytes / 1024);
  }
  Descriptor made(memfd_create("nezha", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!made) return memory_error(Code::unsupported, "memfd_create");
  if (ftruncate(made.get(), static_cast<off_t>(bytes)) != 0) {
    return memory_error(Code::exhausted, "ftruncate of shared memory");
  }
  NEZHA_RETURN_IF_ERROR(reserve(made, 0, reserved));
  if (fcntl(made.get(), F_ADD_SEALS, kSeals) != 0) {
    return memory_error(Code::unsupported, "sealing shared memory");
  }
  auto mapped = map(made, bytes);
  if (mapped) *memory = std::move(made);
  return mapped;
}

Result<std::unique_ptr<SealedMemory>> SealedMemory::adopt(const Descriptor& memory, size_t bytes) {
  struct stat about {};
  const int seals = fcntl(memory.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || fstat(memory.get(), &about) != 0 ||
      about.st_size != static_cast<off_t>(bytes)) {
    return error(Code::invalid_argument, "what the peer passed is not sealed memory of %zu bytes", bytes);
  }
  return map(memory, bytes);
}

Status SealedMemory::reserve(const Descriptor& memory, size_t offset, size_t bytes) {
  if (fallocate(memory.get(), 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0) {
    return Status::ok();
  }
  return memory_error(Code::exhausted, "reserving shared memory");
}

bool SealedMemory::give_back(const Descriptor& memory, size_t offset, size_t bytes) {
  return fallocate(memory.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                   static_cast<off_t>(bytes)) == 0;
}

Result<std::unique_ptr<SealedMemory>> SealedMemory::map(const Descriptor& memory, size_t bytes) {
  void* const base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (base == MAP_FAILED) return memory_error(Code::exhausted, "mapping shared memory");
  std::unique_ptr<SealedMemory> mapped(new SealedMemory(static_cast<std::byte*>(base), bytes));
  if (madvise(base, bytes, MADV_DONTFORK) != 0) {
    return memory_error(Code::unsupported, "keeping shared memory from children");
  }
  return mapped;
}

SealedMemory::~SealedMemory() { munmap(data_, bytes_); }

}  // namespace nezha
