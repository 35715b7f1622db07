// LastError: the last error of this thread, for nezha_last_error and nezha_last_error_details.
#pragma once

#include "base/status.h"
#include "nezha/nezha.h"

namespace nezha::capi {

// Remembers a failure and returns its code.
nezha_code remember(const Status& status);

// Runs `body` and turns what it throws into a code: no exception reaches a C caller.
template <class Body>
nezha_code guarded(Body body);

// Copies `content` for the caller (nezha_describe, nezha_query).
nezha_code give_text(const std::string& content, char* text, size_t size, size_t* needed);

}  // namespace nezha::capi

#include <exception>
#include <new>

namespace nezha::capi {

template <class Body>
nezha_code guarded(Body body) {
  try {
    return remember(body());
  } catch (const std::bad_alloc&) {
    return remember(error(Code::exhausted, "out of memory"));
  } catch (const std::exception& failure) {
    return remember(error(Code::internal, "%s", failure.what()));
  }
}

}  // namespace nezha::capi
