// Protocol points: moments in the life of a frame at which a fault may strike, by name, and the run of
// a fixed program in which it strikes at two of them, one after the other.
//
// Contract: one thread; the same case is the same history.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "simulation/scenario.h"

namespace nezha::simulation {

struct ProtocolPoint {
  std::string name;
  bool (*matches)(const Passing& passing);
  transport::FakeMoment moment;
  bool after_loss;  // occurs only where something was lost before
};
const std::vector<ProtocolPoint>& protocol_points();

enum class Blow : uint8_t {
  reset,
  late_reset,      // the sides notice one after the other
  hole,
  one_way,
  late_copy,       // a hole at the first point; when something was sent again, closed at the second
  late_copy_dies,  // and what comes out of it breaks off in the middle
};
inline constexpr uint64_t kBlows = 6;
std::string_view name_of(Blow blow);

struct PointCase {
  size_t first = 0;   // index of the point at which the first connection is struck
  size_t second = 0;  // and of that at which the next one is
  int skip = 0;       // occurrences of each point that pass unharmed
  Blow blow = Blow::reset;
  uint64_t seed = 1;
};

struct PointReport {
  std::string wrong;
  int struck = 0;  // blows that fell: 0, 1 or 2
};

// Runs the program of three ranks on four rails. Of no pair of ranks the last whole rail is struck. Where
// the first point occurs only after a loss, one comes before it.
class PointRunner {
 public:
  PointRunner();
  PointReport run(const PointCase& at);
  const std::string& wrong() const { return wrong_; }  // of the run without faults

 private:
  WorldOptions world_;
  JobOptions job_;
  Program program_;
  Nanoseconds fault_free_ = 0;
  std::string wrong_;
};

}  // namespace nezha::simulation
