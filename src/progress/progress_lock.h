// The progress lock in declarations: who takes it and who needs it, for Clang's thread-safety analysis.
//
// Contract: no code, and nothing at all for other compilers. tools/progress_lock.py has Clang check
// that nothing takes the lock while it has it, and that nothing which needs it is called without it.
// A function that says neither does not take the lock, and calls nothing that needs it; except in
// folders in which all code runs with the lock (engine/*/, transport), where nothing says so. Clang
// checks no constructor and no destructor: one that takes the lock leaves that to a function.
//
// Clang compares the names of locks, and a loop has many. So one object stands for the lock of the loop
// that owns what the code at hand works on. In two places a thread holds the locks of two loops,
// which the check does not see, and which say why nobody waits for ever: MeshBuilder::run
// (transport/connect), and Aggregator::may_authenticate and admit (modules/aggregation).
#pragma once

#ifdef __clang__
#define NEZHA_LOCK_ATTRIBUTE(attribute) __attribute__((attribute))
#else
#define NEZHA_LOCK_ATTRIBUTE(attribute)
#endif

// Behind a function's parameters. The function is called with the progress lock held.
#define NEZHA_REQUIRES_LOCK \
  NEZHA_LOCK_ATTRIBUTE(requires_capability(::nezha::progress::kProgressLock))
// The function, or one that it calls, takes the progress lock.
#define NEZHA_EXCLUDES_LOCK \
  NEZHA_LOCK_ATTRIBUTE(requires_capability(!::nezha::progress::kProgressLock))
// Clang does not check what the function itself does.
#define NEZHA_LOCK_UNCHECKED NEZHA_LOCK_ATTRIBUTE(no_thread_safety_analysis)

namespace nezha::progress {

class NEZHA_LOCK_ATTRIBUTE(capability("lock")) ProgressLock {
 public:
  // The analysis wants it for NEZHA_EXCLUDES_LOCK.
  const ProgressLock& operator!() const { return *this; }
};
inline constexpr ProgressLock kProgressLock;

}  // namespace nezha::progress
