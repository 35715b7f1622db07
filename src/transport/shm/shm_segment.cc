#include "transport/shm/shm_segment.h"

namespace nezha::transport {

Result<std::unique_ptr<ShmSegment>> ShmSegment::create(Descriptor* memory) {
  return of(SealedMemory::create(kSegmentBytes, kSegmentBytes, memory));
}

Result<std::unique_ptr<ShmSegment>> ShmSegment::adopt(const Descriptor& memory) {
  return of(SealedMemory::adopt(memory, kSegmentBytes));
}

Result<std::unique_ptr<ShmSegment>> ShmSegment::of(Result<std::unique_ptr<SealedMemory>> memory) {
  if (!memory) return memory.status();
  return std::unique_ptr<ShmSegment>(new ShmSegment(std::move(*memory)));
}

ShmRing ShmSegment::ring(int index) const {
  std::byte* const begin = memory_->data() + static_cast<size_t>(index) * (kIndicesBytes + kRingBytes);
  return {reinterpret_cast<ShmIndices*>(begin), begin + kIndicesBytes};
}

}  // namespace nezha::transport
