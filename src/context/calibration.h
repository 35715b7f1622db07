// Calibration: what `nezha calibrate` measured of a cluster's rails, for the library to begin with.
//
// Contract: pure, any thread. Every rank reads a file, and all files must have the same content:
// `name` is a part of the agreed configuration. docs/simulation_study.md documents the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "rails/policies/eq.h"
#include "schedule/plan.h"

namespace nezha::context {

inline constexpr size_t kCalibrationBytesMax = 4 << 20;

struct Calibration {
  struct Rail {
    std::string name;
    double bytes_per_s = 0;
    double latency_s = 0;  // includes the processor time of the receiver of a message
  };
  std::vector<Rail> rails;
  double reduce_bytes_per_s = 0;
  uint32_t checksum = 0;  // of the file
  // rate_lost[i][j]: the part of its rate that rail i loses while rail j is used, too; indexes of
  // `rails`. If the file has no such measurement, `split_cost_s` is empty.
  rails::RatesLost rate_lost{};
  std::optional<double> split_cost_s;
  struct Inside {
    double bytes_per_s = 0;  // of a rank, to others of its host
    double latency_s = 0;
  };
  std::optional<Inside> inside;  // between ranks of a host, through memory; empty: not in the file

  // The file's rail of this name; nullptr: it has none.
  const Rail* find(std::string_view name) const;
  // Returns rate_lost and split_cost_s for `rails`, in their order. A rail that the file does not
  // have loses nothing.
  rails::Interference interference(std::span<const std::string> rails) const;
  // Sets latency and reduction rate of `costs` as measured on `rails`, the rails of rank 0, whose
  // costs all ranks use. The latency of several rails is their mean weighted by rate, as for an
  // operation that is divided so that all rails end together. `invalid_argument`: the file has none
  // of these rails.
  Status apply(std::span<const std::string> rails, schedule::CostTable* costs) const;
  // The file's checksum as text: equal for equal files.
  std::string name() const;
};

// `invalid_argument` names the field, its value and what it must be.
Result<Calibration> parse_calibration(std::string_view json);

}  // namespace nezha::context
