// AlgorithmFile: the schedules that a user wrote, read and proved before anything runs by them; what the
// module brings to its host.
//
// Contract: pure, any thread. Takes any bytes; the limits of parser.h and kPartMovesMax bound time and
// memory. Errors are one sentence, with the line, rank, round and step where they have one:
// `invalid_argument` for what is no schedule or a wrong one (verifier.h has what is proved),
// `unsupported` for a collective that takes none. docs/algorithms.md documents the file.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "proof/verifier.h"
#include "schedule/algorithm_reader.h"
#include "schedule/file_algorithm.h"

namespace nezha::schedule {

// The parts that all steps of all ranks move together: a bound on the work of a proof.
inline constexpr uint64_t kPartMovesMax = 4 << 20;
// The most that may pass from one rank to one other, in whole chunks, and in messages over a chunk
// of every slice: as much as with the algorithms of the catalog, by which the credit of short
// operations is divided.
inline constexpr uint32_t kPairLoadMax = 2;
inline constexpr uint32_t kPairMessagesMax = 128;

struct ProvedAlgorithm {
  FileAlgorithm algorithm;
  Proof proof;
  uint64_t messages = 0;  // of all ranks, in one chunk of every slice
};

Result<ProvedAlgorithm> prove_algorithm(std::string_view text);

const AlgorithmReader& algorithm_reader();

}  // namespace nezha::schedule
