// AlgorithmReader: from the text of a file (option algorithm_file) to schedules that are proved.
//
// Contract: one object a process, which lives as long as the process, of the module proof
// (base/module.h, modules/proof); pure, any thread. Takes any bytes. Errors are one sentence, with the
// line, rank, round and step where they have one: `invalid_argument` for what is no schedule, a wrong
// one, or longer than kScheduleTextBytesMax; `unsupported` for a collective that takes none.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/status.h"
#include "schedule/file_algorithm.h"

namespace nezha::schedule {

inline constexpr size_t kScheduleTextBytesMax = 8 << 20;

class AlgorithmReader {
 public:
  static constexpr char kInterface[] = "algorithm files";

  virtual ~AlgorithmReader() = default;
  virtual Result<FileAlgorithm> read(std::string_view text) const = 0;
};

}  // namespace nezha::schedule
