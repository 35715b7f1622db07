// The objects that the fake provider hands out in the place of libfabric's (fake_objects.cc), and what it
// does with them (fake_fabric.cc).
//
// Contract: one thread. An object lives until fi_close.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <vector>

namespace nezha::simulation {

struct FakeDomain;

// fi_mr.
struct FakeRegion {
  fid_mr base{};
  FakeDomain* domain = nullptr;
  std::byte* at = nullptr;
  size_t bytes = 0;
  uint64_t number = 0;

  static uint64_t enlist();
  static void strike(uint64_t number);
};

struct FakeDomain {
  fid_domain base{};
  std::map<uint64_t, FakeRegion*> targets;  // by key
};

struct FakeCompletion {
  void* context = nullptr;
  uint64_t flags = 0;
  size_t bytes = 0;
  uint64_t word = 0;
  int error = 0;
};

struct FakeQueue {
  fid_cq base{};
  std::deque<FakeCompletion> completions;
};

struct FakeTable {
  fid_av base{};
  std::vector<int> ports;
};

struct FakeWrite {
  int to = 0;
  const std::byte* at = nullptr;
  size_t bytes = 0;
  uint64_t local = 0;
  uint64_t address = 0;
  uint64_t key = 0;
  uint64_t word = 0;
  void* context = nullptr;
};

struct FakePort {
  struct Buffer {
    std::byte* at = nullptr;
    size_t bytes = 0;
    void* context = nullptr;
  };
  // Tagged messages have buffers of their own; there is one tag.
  struct Lane {
    std::deque<Buffer> buffers;                     // posted
    std::deque<std::vector<std::byte>> unexpected;  // messages without one
  };
  fid_ep base{};
  int number = 0;
  FakeDomain* domain = nullptr;
  FakeQueue* queue = nullptr;
  FakeTable* table = nullptr;
  std::array<Lane, 2> lanes;                     // the second one is tagged
  size_t under_way = 0;                          // of its own, not completed

  static int open(FakePort* port);
  static void close(FakePort* port);
  static bool needs_local();
  static ssize_t receive(FakePort& port, const Buffer& buffer, size_t lane);
  static ssize_t send(FakePort& port, int to, std::span<const std::byte> message, size_t lane,
                      void* context);
  static ssize_t write(FakePort& port, const FakeWrite& write);
};

}  // namespace nezha::simulation
