// Modes of floating point that programs leave a thread in.
//
// Contract: a Mode is the calling thread's while a WithMode of it lives.
#pragma once

#include <cfenv>
#include <cstdint>
#include <vector>

namespace nezha::testing {

struct Mode {
  const char* name;
  bool flushes;  // results to zero, and operands where the processor tells the two apart
  int rounding;
};

inline constexpr Mode kDefaultMode = {"default", false, FE_TONEAREST};

// Four that are not the default.
inline const std::vector<Mode>& modes() {
  static const std::vector<Mode> kModes = {{"flush to zero", true, FE_TONEAREST},
                                           {"toward zero", false, FE_TOWARDZERO},
                                           {"upward", false, FE_UPWARD},
                                           {"downward and flush to zero", true, FE_DOWNWARD}};
  return kModes;
}

class WithMode {
 public:
  explicit WithMode(const Mode& mode) {
    std::fegetenv(&before_);
    std::fesetround(mode.rounding);
    if (!mode.flushes) return;
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);
#elif defined(__aarch64__)
    uint64_t control = 0;
    asm volatile("mrs %0, fpcr" : "=r"(control));
    asm volatile("msr fpcr, %0" : : "r"(control | uint64_t{1} << 24) : "memory");
#endif
  }
  ~WithMode() { std::fesetenv(&before_); }
  WithMode(const WithMode&) = delete;
  WithMode& operator=(const WithMode&) = delete;

 private:
  std::fenv_t before_;
};

}  // namespace nezha::testing
