// Calibration: what `nezha calibrate` measured of the rails of a cluster, as the library begins with it.
//
// Contract: pure, any thread. Every rank reads a file, and all files must have the same content: `name`
// goes with the agreed configuration. docs/simulation_study.md documents the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "control/policies/eq.h"
#include "schedule/plan.h"

namespace nezha::context {

inline constexpr size_t kCalibrationBytesMax = 4 << 20;

struct Calibration {
  struct Rail {
    std::string name;
    double bytes_per_s = 0;
    double latency_s = 0;  // with what a message costs its receiver's processor
  };
  std::vector<Rail> rails;
  double reduce_bytes_per_s = 0;
  uint32_t checksum = 0;  // of the file
  // What rails lose to each other, by the rails of the file; not measured where the file has none.
  control::RatesLost rate_lost{};
  std::optional<double> split_cost_s;
  struct Inside {
    double bytes_per_s = 0;  // of a rank, to others of its host
    double latency_s = 0;
  };
  std::optional<Inside> inside;  // a host, through memory; not measured where the file has none

  // The file's rail of this name; nullptr: it has none.
  const Rail* find(std::string_view name) const;
  // The same for `rails`, in their order. Unknown ones lose nothing.
  control::Interference interference(std::span<const std::string> rails) const;
  // Latency and adding as measured on `rails`, those of rank 0, by whose costs all ranks choose. The
  // latency of several rails is their mean weighted by rate, as when an operation is divided so that all
  // end together. `invalid_argument`: the file knows none of them.
  Status apply(std::span<const std::string> rails, schedule::CostTable* costs) const;
  // Equal for equal files.
  std::string name() const;
};

// `invalid_argument` names the field, its value and what it must be.
Result<Calibration> parse_calibration(std::string_view json);

}  // namespace nezha::context
