// Errors of the module: a nezha_code becomes the exception class that nezha/errors.py has for it.
//
// Contract: call with the GIL held. Both functions leave by throwing; `last_error` must be called on
// the thread of the failed C call, before its next one.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "nezha/nezha.h"

namespace nezha::python {

[[noreturn]] void raise(nezha_code code, const std::string& message);
[[noreturn]] void raise(nezha_code code, const std::string& message, nanobind::handle cause);

// nezha_last_error() as text, never null.
std::string last_error();

inline void check(nezha_code code) {
  if (code != NEZHA_OK) raise(code, last_error());
}

}  // namespace nezha::python
