// Errors of the module: a nezha_code becomes the exception class that nezha/errors.py has for it.
//
// Contract: `raise` is called with the GIL held and leaves by throwing. `failure_of` needs no GIL; it is
// called on the thread of the C call, before its next one.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "nezha/nezha.h"

namespace nezha::python {

// What a C call answered.
struct Failure {
  nezha_code code = NEZHA_OK;
  std::string message;
  std::string details = {};  // nezha_last_error_details(); empty: none

  explicit operator bool() const { return code != NEZHA_OK; }
};

// `code` with what the library says of it.
Failure failure_of(nezha_code code);

[[noreturn]] void raise(nezha_code code, const std::string& message);
[[noreturn]] void raise(const Failure& failure, nanobind::handle cause = {});

inline void check(nezha_code code) {
  if (code != NEZHA_OK) raise(failure_of(code));
}

}  // namespace nezha::python
