// Every dtype x op, every instruction set: the same bits as the reference, at odd sizes, misaligned
// and aliased, and not one byte beside the result.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "property/reduce_reference.h"
#include "reduce/kernel_table.h"

namespace nezha::reduce {
namespace {

constexpr size_t kGuardBytes = 64;
constexpr std::byte kGuard{0xA5};

enum class Alias { none, out_is_a, out_is_b, all_one };

struct Offsets {
  size_t out;
  size_t a;
  size_t b;
};

// `count` elements at a chosen misalignment, between guards.
class Buffer {
 public:
  Buffer(Dtype dtype, uint64_t count, size_t offset)
      : offset_(kGuardBytes + offset),
        size_(count * dtype_size(dtype)),
        bytes_(offset_ + size_ + kGuardBytes, kGuard) {}
  std::byte* data() { return bytes_.data() + offset_; }
  bool guards_intact() const {
    for (size_t i = 0; i < bytes_.size(); ++i) {
      if ((i < offset_ || i >= offset_ + size_) && bytes_[i] != kGuard) return false;
    }
    return true;
  }

 private:
  size_t offset_;
  size_t size_;
  std::vector<std::byte> bytes_;
};

std::vector<const KernelTable*> tables() {
  std::vector<const KernelTable*> all = {&baseline_kernels()};
  if (avx2_kernels() != nullptr) all.push_back(avx2_kernels());
  return all;
}

class ReduceKernels : public ::testing::TestWithParam<std::tuple<int, int>> {
 protected:
  Dtype dtype() const { return static_cast<Dtype>(std::get<0>(GetParam())); }
  ReduceOp op() const { return static_cast<ReduceOp>(std::get<1>(GetParam())); }

  void check(const KernelTable& table, uint64_t count, Offsets offsets, Alias alias) {
    Buffer a(dtype(), count, offsets.a);
    Buffer b(dtype(), count, offsets.b);
    Buffer separate(dtype(), count, offsets.out);
    std::vector<uint64_t> expected;
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t left = reference::random_bits(dtype(), generator_);
      const uint64_t right =
          alias == Alias::all_one ? left : reference::random_bits(dtype(), generator_);
      reference::put_element(a.data(), dtype(), i, left);
      reference::put_element(b.data(), dtype(), i, right);
      expected.push_back(reference::reduced(dtype(), op(), left, right));
    }
    Buffer& second = alias == Alias::all_one ? a : b;
    Buffer& out = alias == Alias::none ? separate : (alias == Alias::out_is_b ? b : a);
    const auto kernel =
        table.reduce[static_cast<size_t>(dtype())][static_cast<size_t>(op())];
    kernel(out.data(), a.data(), second.data(), count);
    for (uint64_t i = 0; i < count; ++i) {
      ASSERT_EQ(reference::element_at(out.data(), dtype(), i), expected[i])
          << table.instruction_set << " element " << i << " of " << count;
    }
    ASSERT_TRUE(a.guards_intact() && b.guards_intact() && separate.guards_intact())
        << table.instruction_set << " wrote beside " << count << " elements";
  }

  std::mt19937_64 generator_{20240731};
};

TEST_P(ReduceKernels, MatchTheReferenceBitForBit) {
  if (!reduce_supported(dtype(), op())) {
    for (const KernelTable* table : tables()) {
      EXPECT_EQ(table->reduce[static_cast<size_t>(dtype())][static_cast<size_t>(op())], nullptr);
    }
    return;
  }
  std::vector<uint64_t> sizes = {95, 127, 129, 1023};
  for (uint64_t size = 0; size <= 67; ++size) sizes.push_back(size);
  for (const KernelTable* table : tables()) {
    for (const uint64_t size : sizes) {
      for (const Offsets offsets : {Offsets{0, 0, 0}, Offsets{1, 2, 3}, Offsets{7, 0, 9}}) {
        for (const Alias alias :
             {Alias::none, Alias::out_is_a, Alias::out_is_b, Alias::all_one}) {
          ASSERT_NO_FATAL_FAILURE(check(*table, size, offsets, alias));
        }
      }
    }
  }
}

std::string case_name(const ::testing::TestParamInfo<std::tuple<int, int>>& info) {
  return std::string(name_of(static_cast<Dtype>(std::get<0>(info.param)))) + "_" +
         std::string(name_of(static_cast<ReduceOp>(std::get<1>(info.param))));
}

INSTANTIATE_TEST_SUITE_P(All, ReduceKernels,
                         ::testing::Combine(::testing::Range(0, static_cast<int>(kDtypeCount)),
                                            ::testing::Range(0, static_cast<int>(kReduceOpCount))),
                         case_name);

}  // namespace
}  // namespace nezha::reduce
