#include "transport/shm/shm_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace nezha::transport {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Status segment_error(Code code, const char* what) {
  return error(code, "%s: %s", what, std::strerror(errno)).with_errno(errno);
}

}  // namespace

Result<std::unique_ptr<ShmSegment>> ShmSegment::create(Descriptor* memory) {
  // A file size limit would end the process.
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < kSegmentBytes) {
    return error(Code::exhausted, "the limit of file sizes (ulimit -f) is below %zu KiB",
                 kSegmentBytes / 1024);
  }
  Descriptor made(memfd_create("nezha", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!made) return segment_error(Code::unsupported, "memfd_create");
  if (ftruncate(made.get(), static_cast<off_t>(kSegmentBytes)) != 0) {
    return segment_error(Code::exhausted, "ftruncate of shared memory");
  }
  if (fallocate(made.get(), 0, 0, static_cast<off_t>(kSegmentBytes)) != 0) {
    return segment_error(Code::exhausted, "reserving shared memory");
  }
  if (fcntl(made.get(), F_ADD_SEALS, kSeals) != 0) {
    return segment_error(Code::unsupported, "sealing shared memory");
  }
  auto segment = map(made);
  if (segment) *memory = std::move(made);
  return segment;
}

Result<std::unique_ptr<ShmSegment>> ShmSegment::adopt(const Descriptor& memory) {
  struct stat about {};
  const int seals = fcntl(memory.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || fstat(memory.get(), &about) != 0 ||
      about.st_size != static_cast<off_t>(kSegmentBytes)) {
    return error(Code::invalid_argument, "what the peer passed is not sealed memory of %zu bytes",
                 kSegmentBytes);
  }
  return map(memory);
}

Result<std::unique_ptr<ShmSegment>> ShmSegment::map(const Descriptor& memory) {
  void* const base =
      mmap(nullptr, kSegmentBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (base == MAP_FAILED) return segment_error(Code::exhausted, "mapping shared memory");
  std::unique_ptr<ShmSegment> segment(new ShmSegment(static_cast<std::byte*>(base)));
  if (madvise(base, kSegmentBytes, MADV_DONTFORK) != 0) {
    return segment_error(Code::unsupported, "keeping shared memory from children");
  }
  return segment;
}

ShmSegment::~ShmSegment() { munmap(base_, kSegmentBytes); }

ShmRing ShmSegment::ring(int index) const {
  std::byte* const begin = base_ + static_cast<size_t>(index) * (kIndicesBytes + kRingBytes);
  return {reinterpret_cast<ShmIndices*>(begin), begin + kIndicesBytes};
}

}  // namespace nezha::transport
