// Every algorithm of the catalog keeps its promise for 1 to 64 ranks.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "schedule/catalog.h"
#include "schedule/verifier.h"

namespace nezha::schedule {
namespace {

std::vector<Schedule> all_ranks(const AlgorithmEntry& entry, int world_size, int root) {
  std::vector<Schedule> ranks;
  for (int rank = 0; rank < world_size; ++rank) {
    ranks.push_back(*build(entry.collective, entry.algorithm, rank, world_size, root));
  }
  return ranks;
}

// Every root of a small world; the edges and the middle of a big one.
std::vector<int> roots_of(const AlgorithmEntry& entry, int world_size) {
  if (entry.collective != Collective::broadcast) return {0};
  std::vector<int> roots;
  for (int root = 0; root < world_size; ++root) {
    if (world_size <= 9 || root < 2 || root == world_size / 2 || root == world_size - 1) {
      roots.push_back(root);
    }
  }
  return roots;
}

class Catalog : public testing::TestWithParam<AlgorithmEntry> {};

TEST_P(Catalog, IsProvedForEveryWorldUpTo64) {
  for (int world_size = 1; world_size <= 64; ++world_size) {
    for (const int root : roots_of(GetParam(), world_size)) {
      const Result<Proof> proof = verify(all_ranks(GetParam(), world_size, root));
      ASSERT_TRUE(proof) << world_size << " ranks, root " << root << ": "
                         << proof.status().to_string();
    }
  }
}

std::string test_name(const testing::TestParamInfo<AlgorithmEntry>& entry) {
  return std::string(name_of(entry.param.algorithm));
}

INSTANTIATE_TEST_SUITE_P(All, Catalog, testing::ValuesIn(catalog().begin(), catalog().end()),
                         test_name);

}  // namespace
}  // namespace nezha::schedule
