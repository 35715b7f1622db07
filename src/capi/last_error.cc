#include "capi/last_error.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "base/json.h"

namespace nezha::capi {
namespace {

thread_local Status last;
thread_local std::string last_details;

void write(JsonWriter& json, std::string_view name, std::string_view text) {
  json.key(name);
  text.empty() ? json.null() : json.value(text);
}

void write(JsonWriter& json, std::string_view name, int64_t number) {
  json.key(name);
  number < 0 ? json.null() : json.value(number);
}

std::string json_of(const Status& status) {
  ErrorDetails known = status.details != nullptr ? *status.details : ErrorDetails();
  if (known.ranks.empty() && status.peer >= 0) known.ranks = {status.peer};
  JsonWriter json;
  json.begin_object().field("version", 1).field("code", name_of(status.code()));
  json.key("ranks").begin_array();
  for (const int rank : known.ranks) json.value(rank);
  json.end_array();
  write(json, "rail", known.rail);
  write(json, "operation", known.operation);
  write(json, "operation_number", known.number);
  write(json, "bytes", known.bytes);
  write(json, "communicator", known.communicator);
  return json.field("goes_on", known.goes_on).end_object().take();
}

}  // namespace

nezha_code remember(const Status& status) {
  if (!status.is_ok()) last = status;
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

const char* nezha_last_error(void) { return nezha::capi::last.message().c_str(); }

const char* nezha_last_error_details(void) {
  try {
    nezha::capi::last_details = nezha::capi::json_of(nezha::capi::last);
  } catch (const std::bad_alloc&) {
    return "{}";
  }
  return nezha::capi::last_details.c_str();
}

const char* nezha_code_name(nezha_code code) {
  // Names are literals, so the view is terminated.
  return nezha::name_of(static_cast<nezha::Code>(code)).data();
}

}  // extern "C"
