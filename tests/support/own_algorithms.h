// Schedules as a user writes them, which the catalog does not have.
//
// Contract: pure; texts for algorithm_file.
#pragma once

#include <fstream>
#include <string>
#include <vector>

#include "proof/printer.h"
#include "schedule/builder.h"

namespace nezha::testing {

// All_reduce of three ranks: rank 0 adds up the others, in their order, and sends them the sum.
inline constexpr const char* kStar = R"(# Rank 0 adds up the others and sends them the sum.
all_reduce by direct: rank 0 of 3, root 0
slice 0, chunks of 1 parts
  round 0
    recv_reduce parts [0, 1) from rank 1 (stage 0, slot 0), from_input
  round 1
    recv_reduce parts [0, 1) from rank 2 (stage 0, slot 0), final
  round 2
    send parts [0, 1) to rank 1 (stage 1, slot 0)
    send parts [0, 1) to rank 2 (stage 1, slot 0)

all_reduce by direct: rank 1 of 3, root 0
slice 0, chunks of 1 parts
  round 0
    send parts [0, 1) to rank 0 (stage 0, slot 0), from_input
    recv parts [0, 1) from rank 0 (stage 1, slot 0)

all_reduce by direct: rank 2 of 3, root 0
slice 0, chunks of 1 parts
  round 0
    send parts [0, 1) to rank 0 (stage 0, slot 0), from_input
    recv parts [0, 1) from rank 0 (stage 1, slot 0)
)";

// The all_reduce of the text book: a ring in one slice, whose rounds wait for each other, and in which
// every rank sends the next one nearly the whole vector twice.
inline std::string text_book_ring(int ranks) {
  using namespace schedule;
  std::vector<Schedule> world;
  const auto part = [ranks](int number) {
    const auto begin = static_cast<uint32_t>((number % ranks + ranks) % ranks);
    return Parts{begin, begin + 1};
  };
  for (int rank = 0; rank < ranks; ++rank) {
    const int next = (rank + 1) % ranks;
    const int before = (rank + ranks - 1) % ranks;
    Builder builder(static_cast<uint32_t>(ranks));
    for (int round = 0; round < ranks - 1; ++round) {
      const Completes completes = round == ranks - 2 ? Completes::yes : Completes::no;
      builder.next_round().send(next, part(rank - round), {round});
      builder.recv_reduce(before, part(rank - round - 1), {round}, completes);
    }
    for (int round = 0; round < ranks - 1; ++round) {
      builder.next_round().send(next, part(rank - round + 1), {ranks - 1 + round});
      builder.recv(before, part(rank - round), {ranks - 1 + round});
    }
    world.push_back({Collective::all_reduce, Algorithm::ring, rank, ranks, 0, {builder.finish()}});
  }
  return to_text(world);
}

// The text with every `from` made `to`.
inline std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

inline std::string write_algorithm(const std::string& directory, const std::string& text) {
  const std::string path = directory + "/algorithm.txt";
  std::ofstream(path) << text;
  return path;
}

}  // namespace nezha::testing
