// Builder: writes a Program round by round, so that an algorithm states only who sends what.
//
// Contract: one owner, one thread, used once. Within a round sends come before everything else,
// because steps start in order and a private copy must be taken before a reduction may run. A round
// without steps is dropped. `finish` fills `from_input` (of a `copy`, too: it is set unless the copy
// is a `keep`). A program that breaks these rules is a bug
// of the algorithm, not of its caller, so it aborts (NEZHA_CHECK); the verifier proves the rest.
#pragma once

#include <cstdint>

#include "schedule/schedule.h"

namespace nezha::schedule {

// A half-open range of the parts of a chunk. Empty ranges carry no bytes (barriers).
struct Parts {
  uint32_t begin = 0;
  uint32_t end = 0;
};

// The identity of a transfer between two ranks inside a chunk; equal on both sides.
struct Tag {
  int stage = 0;
  int slot = 0;
};

enum class Source : uint8_t { live, copied };           // see Step::copy_source
enum class Operands : uint8_t { own_first, peer_first };  // see Step::peer_first
enum class Completes : uint8_t { no, yes };             // see Step::final
enum class Memory : uint8_t { output, workspace };      // see Step::in_workspace

class Builder {
 public:
  // `memory`: where the steps of this program work, until work_in.
  explicit Builder(uint32_t parts, Memory memory = Memory::output);

  // The memory in which the steps from here on work. Only all_to_all may mix the two (schedule.h).
  Builder& work_in(Memory memory);

  // Ends the round in progress; the next step begins another.
  Builder& next_round();

  Builder& send(int peer, Parts parts, Tag tag, Source source = Source::live);
  Builder& recv(int peer, Parts parts, Tag tag);
  Builder& recv_whole(int peer, Parts parts, Tag tag);
  Builder& recv_reduce(int peer, Parts parts, Tag tag, Completes completes = Completes::no,
                       Operands operands = Operands::own_first);
  // Output or workspace = input.
  Builder& copy(Parts parts);
  // Output = workspace: the part of a workspace program that this rank keeps.
  Builder& keep(Parts parts);

  // The rounds from here on run once for the operation, not for every chunk (Program::closing).
  // There must be a round before them.
  Builder& closing();

  Program finish();

 private:
  void add(StepKind kind, int peer, Parts parts, Tag tag);

  Program program_;
  Memory memory_;
};

// The program of a world of one rank, for any collective: the input is the result.
Program lone_rank_program(Parts parts);

}  // namespace nezha::schedule
