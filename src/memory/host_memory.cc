#include "memory/host_memory.h"

#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/number_hash.h"
#include "memory/pieces.h"

namespace nezha::memory {
namespace {

constexpr int kRingsPerTurn = 16;  // read at once; the socket stays ready for further ones
constexpr std::byte kRing{1};

int option_of(const Descriptor& socket, int option) {
  int value = -1;
  socklen_t size = sizeof(value);
  return getsockopt(socket.get(), SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

}  // namespace

Result<BellEnds> make_bell() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return error(Code::exhausted, "socketpair: %s", std::strerror(errno)).with_errno(errno);
  }
  return BellEnds{Descriptor(ends[0]), Descriptor(ends[1])};
}

bool is_bell(const Descriptor& passed) {
  return option_of(passed, SO_DOMAIN) == AF_UNIX && option_of(passed, SO_TYPE) == SOCK_DGRAM;
}

// Areas of fewer ranks have longer slots: the size is that of the group size that needs most.
size_t HostMemory::area_bytes(size_t ranks) {
  size_t most = 0;
  for (int members = 2; members <= static_cast<int>(ranks); ++members) {
    most = std::max(most, Area::bytes(members));
  }
  return most;
}

uint64_t HostMemory::key_of(uint64_t comm, const std::vector<int>& members, AreaUse use) {
  NumberHash key;
  key.add(comm);
  key.add(static_cast<uint64_t>(use));
  for (const int member : members) key.add(static_cast<uint64_t>(member));
  return key.value();
}

Result<std::unique_ptr<SealedMemory>> HostMemory::create(const std::vector<int>& ranks, bool is_world,
                                                         Descriptor* file) {
  const size_t reserved = AreaTable::bytes() + (is_world ? area_bytes(ranks.size()) : 0);
  auto memory = SealedMemory::create(bytes(ranks.size()), reserved, file);
  if (memory && is_world) {
    const auto is_reserved = [](size_t) { return true; };
    const uint64_t key = key_of(0, ranks, AreaUse::operations);
    AreaTable((*memory)->data()).area_of(key, is_reserved, [](size_t) {});
  }
  return memory;
}

std::vector<size_t> HostMemory::local_ranks_of(const std::vector<int>& members) const {
  std::vector<size_t> local_ranks;
  for (const int member : members) {
    const auto local_rank = std::lower_bound(host_.ranks.begin(), host_.ranks.end(), member);
    if (local_rank == host_.ranks.end() || *local_rank != member) return {};
    local_ranks.push_back(static_cast<size_t>(local_rank - host_.ranks.begin()));
  }
  return local_ranks;
}

Area* HostMemory::area_of(uint64_t comm, const std::vector<int>& members, AreaUse use) {
  std::vector<size_t> local_ranks = local_ranks_of(members);
  if (local_ranks.size() < 2) return nullptr;
  const auto own = std::find(local_ranks.begin(), local_ranks.end(), static_cast<size_t>(host_.index));
  const int rank = static_cast<int>(own - local_ranks.begin());
  const size_t bytes = Area::bytes(static_cast<int>(members.size()));
  places_.reserve(places_.size() + 1);
  const auto area = table_.area_of(
      key_of(comm, members, use),
      [&](size_t index) { return SealedMemory::reserve(host_.file, offset_of(index), bytes).is_ok(); },
      [&](size_t index) { SealedMemory::give_back(host_.file, offset_of(index), bytes); });
  if (!area) return nullptr;
  std::byte* const base = host_.memory->data() + offset_of(*area);
  places_.push_back(std::make_unique<Place>(host_, std::move(local_ranks), rank, *area, base));
  return &places_.back()->area;
}

// The last member gives the memory back before it frees the area: the next group finds zeros there.
void HostMemory::leave(const Area& area) {
  const auto at = std::find_if(places_.begin(), places_.end(),
                               [&](const auto& place) { return &place->area == &area; });
  const size_t index = (*at)->index;
  const auto members = static_cast<size_t>(area.ranks());
  const uint64_t all = members == 64 ? ~uint64_t{0} : (uint64_t{1} << members) - 1;
  past_ += area.traffic;
  const bool is_last = table_.leave(index, uint64_t{1} << area.rank(), all);
  const size_t bytes = Area::bytes(area.ranks());
  if (is_last && SealedMemory::give_back(host_.file, offset_of(index), bytes)) table_.free(index);
  places_.erase(at);
}

Traffic HostMemory::traffic() const {
  Traffic all = past_;
  for (const auto& place : places_) all += place->area.traffic;
  return all;
}

void HostMemory::empty_bell() {
  std::byte ring{};
  for (int i = 0; i < kRingsPerTurn && recv(bell(), &ring, sizeof(ring), MSG_DONTWAIT) >= 0; ++i) {
  }
}

// A send may fail: a bell whose queue is full wakes its owner already.
void HostMemory::Place::ring(uint64_t members) {
  for (; members != 0; members &= members - 1) {
    const size_t local_rank = local_ranks[static_cast<size_t>(std::countr_zero(members))];
    (void)!send(host.bells[local_rank].get(), &kRing, sizeof(kRing), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
}

}  // namespace nezha::memory
