// HostMemory: what the ranks of one host have in common: memory with an area for each of their groups,
// and a bell for each rank.
//
// Contract
//   Owner    the engine of each rank; after its end nobody looks into the memory.
//   Threads  the progress lock.
//   Areas    every group of these ranks gets an area while there are free ones (area_table.h), the
//            same at all its members. The area has pages from the first member's `area_of` to the
//            last member's `leave`.
//   Bells    a bell is a pair of Unix datagram sockets. Its owner alone has the end that hears, and
//            watches it in its loop; the others have the end that rings, and ring when the owner
//            says that it sleeps (area.h). No call on either end blocks, whatever a member does
//            with its copies: each call has MSG_DONTWAIT, as copies share the flags of a socket.
#pragma once

#include <memory>
#include <vector>

#include "base/descriptor.h"
#include "base/sealed_memory.h"
#include "memory/area.h"
#include "memory/area_table.h"

namespace nezha::memory {

// The ranks of this host, the memory and the bells that they agreed on (context/host_wireup.h).
struct Host {
  std::vector<int> ranks;           // global, ascending
  int index = 0;                    // of this rank among them
  Descriptor file;                  // of the memory
  std::unique_ptr<SealedMemory> memory;
  std::vector<Descriptor> bells;    // by index: ends that ring; one's own is the end that hears
};

// The two ends of a bell. Errors of `make_bell`: `exhausted`.
struct BellEnds {
  Descriptor hears;
  Descriptor rings;
};
Result<BellEnds> make_bell();
// Whether a descriptor that a peer passed is an end that rings: one of another kind could block.
bool is_bell(const Descriptor& passed);

// The use of an area: for the operations of a communicator inside this host, or for one of the
// phases that operations of a communicator of several hosts have inside this host.
enum class AreaUse : uint8_t { operations, collect, hand_out };

class HostMemory {
 public:
  explicit HostMemory(Host host) : host_(std::move(host)), table_(host_.memory->data()) {}

  // Size of the memory of a host with so many ranks.
  static size_t bytes(size_t ranks) { return AreaTable::bytes() + AreaTable::kAreas * area_bytes(ranks); }
  // Makes the memory; one rank of the host does so. It reserves an area for the communicator of all
  // ranks of the job where these ranks are all of them (`is_world`).
  static Result<std::unique_ptr<SealedMemory>> create(const std::vector<int>& ranks, bool is_world,
                                                      Descriptor* file);

  // The area of these members (global ranks) of the communicator, until `leave`. Null: there is
  // none, for any of the members.
  Area* area_of(uint64_t comm, const std::vector<int>& members, AreaUse use = AreaUse::operations);
  void leave(const Area& area);

  int bell() const { return host_.bells[static_cast<size_t>(host_.index)].get(); }
  void empty_bell();
  // Says in every area that this rank is awake.
  void wake() {
    for (const auto& place : places_) place->area.wake();
  }
  int ranks() const { return static_cast<int>(host_.ranks.size()); }
  // This rank's traffic in all of its areas since the beginning.
  Traffic traffic() const;

 private:
  // An area, and which of the host's bells belong to its members.
  struct Place final : private Bells {
    Place(const Host& of, std::vector<size_t> its_local_ranks, int rank, size_t number, std::byte* base)
        : host(of), local_ranks(std::move(its_local_ranks)), index(number),
          area(base, static_cast<int>(local_ranks.size()), rank, *this) {}
    void ring(uint64_t members) override;

    const Host& host;
    const std::vector<size_t> local_ranks;  // by member: its index among the ranks of the host
    const size_t index;
    Area area;
  };
  static size_t area_bytes(size_t ranks);
  static uint64_t key_of(uint64_t comm, const std::vector<int>& members, AreaUse use);
  size_t offset_of(size_t area) const {
    return AreaTable::bytes() + area * area_bytes(host_.ranks.size());
  }
  // The index of each member among the ranks of the host; empty: some member is not on this host.
  std::vector<size_t> local_ranks_of(const std::vector<int>& members) const;

  const Host host_;
  AreaTable table_;
  std::vector<std::unique_ptr<Place>> places_;
  Traffic past_;  // of areas that it has left
};

}  // namespace nezha::memory
