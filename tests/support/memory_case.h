// A collective in memory as one rank passes it, and what it must find then.
//
// Contract: plain values. The buffers live as long as the Rank.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/operation.h"

namespace nezha::memory {

using Vector = std::vector<int64_t>;

struct Case {
  Collective collective = Collective::all_reduce;
  uint64_t count = 0;  // of a block where there are blocks
  int root = 0;
  bool uneven = false;
  bool in_place = false;
  int64_t factor = 1;  // of a sum whose inputs are scaled
};

// What one rank passes, and what it must find: element i of rank r's vector is i * ranks + r + 1.
struct Rank {
  Rank(const Case& at, int ranks, int rank) : at_(at), ranks_(ranks), rank_(rank) {
    for (int block = 0; block < ranks; ++block) {
      counts.push_back(has_blocks() ? at.count + (at.uneven ? static_cast<uint64_t>(block) * 3 : 0) : 0);
    }
    uint64_t begin = 0;
    for (const uint64_t size : counts) {
      begins.push_back(begin);
      begin += size;
    }
    total = has_blocks() ? begin : at.count;
    const auto own = static_cast<size_t>(rank);
    switch (at.collective) {
      case Collective::all_reduce:
      case Collective::reduce:
        in = values(rank, 0, total);
        want = at.collective == Collective::reduce && rank != at.root ? Vector() : sums(0, total);
        break;
      case Collective::broadcast:
        in = values(rank, 0, total);
        want = values(at.root, 0, total);
        break;
      case Collective::reduce_scatter:
        in = values(rank, 0, total);
        want = sums(begins[own], counts[own]);
        break;
      case Collective::scatter:
        in = values(rank, 0, total);
        want = values(at.root, begins[own], counts[own]);
        break;
      case Collective::all_gather:
      case Collective::gather:
        in = values(rank, begins[own], counts[own]);
        if (at.collective == Collective::gather && rank != at.root) break;
        for (int other = 0; other < ranks; ++other) {
          const auto o = static_cast<size_t>(other);
          append(values(other, begins[o], counts[o]));
        }
        break;
      case Collective::all_to_all:
        in = values(rank, 0, total);
        for (int other = 0; other < ranks; ++other) append(values(other, begins[own], counts[own]));
        break;
      default:
        break;
    }
    for (int64_t& each : want) each *= at.factor;
    out.assign(want.size(), -1);
    if (at.in_place) out = in;
  }

  Call call(uint64_t op_seq) {
    Call call;
    call.out = out.empty() ? nullptr : out.data();
    call.in = at_.in_place ? call.out : in.data();
    if (has_blocks() && at_.uneven) call.counts = counts;
    call.op_seq = op_seq;
    call.factor = static_cast<double>(at_.factor);
    const ReduceOp op = at_.factor == 1 ? ReduceOp::sum : ReduceOp::premul_sum;
    call.op = {at_.collective, Dtype::int64, op, Algorithm::memory,
               static_cast<uint16_t>(at_.root), total, 0};
    return call;
  }

  std::vector<uint64_t> counts;
  std::vector<uint64_t> begins;
  uint64_t total = 0;
  Vector in;
  Vector out;
  Vector want;

 private:
  bool has_blocks() const {
    return at_.collective != Collective::all_reduce && at_.collective != Collective::reduce &&
           at_.collective != Collective::broadcast && at_.collective != Collective::barrier;
  }
  Vector values(int of, uint64_t begin, uint64_t size) const {
    Vector made;
    for (uint64_t i = begin; i < begin + size; ++i) {
      made.push_back(static_cast<int64_t>(i) * ranks_ + of + 1);
    }
    return made;
  }
  Vector sums(uint64_t begin, uint64_t size) const {
    Vector made(size, 0);
    for (int other = 0; other < ranks_; ++other) {
      const Vector each = values(other, begin, size);
      for (size_t i = 0; i < size; ++i) made[i] += each[i];
    }
    return made;
  }
  void append(const Vector& more) { want.insert(want.end(), more.begin(), more.end()); }

  const Case at_;
  const int ranks_;
  const int rank_;
};

}  // namespace nezha::memory
