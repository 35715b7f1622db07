// Texts that the C API writes into a buffer of the caller.
#pragma once

#include <string>

#include "errors.h"
#include "nezha/nezha.h"

namespace nezha::python {

// Calls `write(text, size, &needed)` with room for the whole answer. Raises its error.
template <class Write>
std::string whole_text(Write&& write) {
  std::string text(4096, '\0');
  for (;;) {
    size_t needed = 0;
    const nezha_code code = write(text.data(), text.size(), &needed);
    if (code == NEZHA_EXHAUSTED && needed >= text.size()) {
      text.resize(needed + 1);
      continue;
    }
    check(code);
    text.resize(text.find('\0'));
    return text;
  }
}

}  // namespace nezha::python
