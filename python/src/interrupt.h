// Interruptible: how Ctrl-C, and the end of the interpreter, end a call of the library that waits for
// other ranks.
//
// Contract: made, asked and destroyed with the GIL held, by the thread that makes the call in between
// without it; scopes nest. Signal handlers of Python run in the main thread only: there the call ends
// when a handler raises. In other threads it ends when the interpreter does.
#pragma once

#include <nanobind/nanobind.h>

namespace nezha::python {

class Interruptible {
 public:
  Interruptible();
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

  // Runs the handlers of signals that have come; whether one has raised by now, or the interpreter ends.
  bool looks_interrupted();
  // The same, and only the former: then rethrow() throws, whatever came of the call.
  bool will_rethrow() { return looks_interrupted() && raised_.is_valid(); }
  // Throws what a handler raised, if one did.
  void rethrow();

 private:
  static int check_signals();
  static int check_end();

  Interruptible* const outer_;
  const bool in_main_thread_;
  nanobind::object raised_;
};

}  // namespace nezha::python
