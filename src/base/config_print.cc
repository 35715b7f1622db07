// Config's printed forms, all made from the table.
#include <string>

#include "base/config.h"
#include "base/config_fields.h"
#include "base/json.h"

namespace nezha {
namespace {

using config_internal::Field;
using config_internal::fields;

void write_value(JsonWriter& json, const Field& field, const Config& config) {
  const std::string text = field.text_of(config);
  const bool is_text = field.hidden() || std::holds_alternative<std::string Config::*>(field.member);
  is_text ? json.value(text) : json.raw(text);
}

}  // namespace

std::string_view Config::origin(FieldIndex field) const {
  const std::string& origin = origins[static_cast<size_t>(field)];
  return origin.empty() ? std::string_view("default") : std::string_view(origin);
}

std::string Config::agreed_fingerprint_text() const {
  std::string text;
  for (const Field& field : fields()) {
    if (!field.agreed()) continue;
    if (!text.empty()) text += ' ';
    text += std::string(field.name) + '=' + field.text_of(*this);
  }
  return text;
}

std::string Config::to_json() const {
  JsonWriter json;
  json.begin_object();
  for (size_t i = 0; i < kConfigFields; ++i) {
    json.key(fields()[i].name).begin_object().key("value");
    write_value(json, fields()[i], *this);
    json.field("origin", origin(static_cast<FieldIndex>(i))).end_object();
  }
  return json.end_object().take();
}

std::string config_schema_json() {
  const Config defaults;
  JsonWriter json;
  json.begin_array();
  for (const Field& field : fields()) {
    json.begin_object().field("name", field.name).key("default");
    write_value(json, field, defaults);
    json.field("unit", field.unit)
        .field("environment", field.environment_name())
        .field("accepted", field.accepted())
        .field("agreed", field.agreed())
        .field("meaning", field.meaning)
        .end_object();
  }
  return json.end_array().take();
}

}  // namespace nezha
