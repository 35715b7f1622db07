#include "capi/last_error.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace nezha::capi {
namespace {

thread_local std::string last_message;

}  // namespace

nezha_code remember(const Status& status) {
  if (!status.is_ok()) last_message = status.message();
  return static_cast<nezha_code>(status.code());
}

nezha_code give_text(const std::string& content, char* text, size_t size, size_t* needed) {
  if (needed != nullptr) *needed = content.size() + 1;
  if (text == nullptr || size < content.size() + 1) {
    return remember(error(Code::exhausted, "the text needs %zu bytes, the buffer has %zu",
                          content.size() + 1, size));
  }
  std::memcpy(text, content.c_str(), content.size() + 1);
  return NEZHA_OK;
}

}  // namespace nezha::capi

extern "C" {

const char* nezha_last_error(void) { return nezha::capi::last_message.c_str(); }

const char* nezha_code_name(nezha_code code) {
  // Names are literals, so the view is terminated.
  return nezha::name_of(static_cast<nezha::Code>(code)).data();
}

}  // extern "C"
