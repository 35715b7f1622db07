// simulation_tests [--seeds N] [--first S] [--trace FOLDER] [gtest options]
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/log.h"
#include "simulation/options.h"

namespace nezha::simulation {

SeedRange& seed_range() {
  static SeedRange range;
  return range;
}

std::string& trace_folder() {
  static std::string folder;
  return folder;
}

}  // namespace nezha::simulation

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  // Every fault would be a line.
  nezha::log::set_level(nezha::log::Level::error);
  for (int i = 1; i + 1 < argc; i += 2) {
    const uint64_t value = std::strtoull(argv[i + 1], nullptr, 10);
    if (std::strcmp(argv[i], "--seeds") == 0) {
      nezha::simulation::seed_range().count = value;
    } else if (std::strcmp(argv[i], "--first") == 0) {
      nezha::simulation::seed_range().first = value;
    } else if (std::strcmp(argv[i], "--trace") == 0) {
      nezha::simulation::trace_folder() = argv[i + 1];
    } else {
      std::fprintf(stderr, "usage: simulation_tests [--seeds N] [--first S] [--trace FOLDER] "
                   "[gtest options]\n");
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}
