// Composition: a program made of programs of smaller worlds, one after the other, such as "reduce inside
// every host, then among the hosts, then hand out".
//
// Contract: one owner, one thread, used once. All ranks count the same phases, also those in which they
// have no part, so that both ends of a transfer give it the same stage. The memory in which the
// smaller programs work is dropped: the composition has one memory. Copies are dropped, too: the
// composition says which parts of its own input a rank keeps.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "schedule/builder.h"

namespace nezha::schedule {

struct Phase {
  // The smaller world's ranks: its rank i is `ranks[i]` here.
  std::span<const int> ranks;
  // The runs of parts here that parts of the smaller world mean; empty: they are the same.
  std::function<std::vector<Parts>(Parts)> parts = {};
  // The last additions of this phase complete the result.
  Completes completes = Completes::no;
};

class Composition {
 public:
  explicit Composition(uint32_t parts, Memory memory = Memory::output) : builder_(parts, memory) {}

  // Appends the rank's program in the smaller world. Programs of one phase are told apart by the
  // ranks between which their messages go.
  Composition& then(const Program& program, const Phase& phase);
  Composition& next_phase();
  // Output = input, in a round of its own.
  Composition& copy(Parts parts);
  // Output = workspace, in a round of its own.
  Composition& keep(std::span<const Parts> parts);
  Program finish() { return builder_.finish(); }

 private:
  // Stages of one phase: no algorithm of the catalog has as many.
  static constexpr int kStages = 64;
  // Runs into which the parts of one step of a phase may fall.
  static constexpr int kRuns = 16384;

  void add(const Step& step, int peer, Parts parts, Tag tag, Completes completes);

  Builder builder_;
  int phase_ = 0;
};

}  // namespace nezha::schedule
