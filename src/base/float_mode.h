// FloatMode: round to nearest, subnormals as they are, no exception traps, while it lives.
//
// Contract: a local variable of the thread that calculates; no errors. The caller's mode and exception
// flags are back when it ends. What is calculated must be read from memory and be written there, or
// decide something, while it lives: a compiler knows of no dependency between arithmetic and the mode,
// and keeps only reads and writes on their side of its beginning and end.
//
// The mode is a thread's, and programs change it: torch.set_flush_denormal, fesetround,
// feenableexcept, and libraries that were linked with -ffast-math. Nezha calculates in whichever
// thread drives the loop, and ranks that add up the same numbers must get the same bits.
#pragma once

#include <cfenv>
#include <cstdint>

namespace nezha {

class FloatMode {
 public:
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;

#if defined(__x86_64__)

  FloatMode() : callers_(get()) {
    if ((callers_ & ~kFlags) != kDefault) set(kDefault);
  }
  ~FloatMode() {
    if (get() != callers_) set(callers_);
  }

 private:
  static uint32_t get() {
    uint32_t control = 0;
    asm volatile("stmxcsr %0" : "=m"(control) : : "memory");
    return control;
  }
  static void set(uint32_t control) { asm volatile("ldmxcsr %0" : : "m"(control) : "memory"); }

  static constexpr uint32_t kFlags = 0x3F;      // exceptions that have occurred
  static constexpr uint32_t kDefault = 0x1F80;  // all of them masked
  const uint32_t callers_;

#elif defined(__aarch64__)

  FloatMode() {
    asm volatile("mrs %0, fpcr" : "=r"(callers_));
    asm volatile("mrs %0, fpsr" : "=r"(flags_));
    if (callers_ != 0) asm volatile("msr fpcr, %0" : : "r"(uint64_t{0}) : "memory");
  }
  ~FloatMode() {
    if (callers_ != 0) asm volatile("msr fpcr, %0" : : "r"(callers_) : "memory");
    asm volatile("msr fpsr, %0" : : "r"(flags_) : "memory");
  }

 private:
  uint64_t callers_;
  uint64_t flags_;

#else

  FloatMode() {
    std::fegetenv(&callers_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~FloatMode() { std::fesetenv(&callers_); }

 private:
  std::fenv_t callers_;

#endif
};

}  // namespace nezha
