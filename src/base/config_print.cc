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

constexpr std::string_view kHead = R"(# Tuning

Everything that can be configured. This page is made from the table in `src/base/config.h`; change
the table, not the page.

A value comes from, strongest first:

1. the code: `nezha.init(config=...)` or `nezha_init_options.config`, as `key=value` lines;
2. the environment: the names below;
3. a file of `key = value` lines with `#` comments: the one that `NEZHA_CONF_FILE` names, else
   `~/.nezha.conf`;
4. the default.

A variable that is set but empty counts as not set. An unknown `NEZHA_*` variable, or an unknown
key in the file, is a warning in the log with the nearest known name; an unknown key in code, and a
bad value anywhere, is `invalid_argument` saying where it stands and what is accepted.
`nezha_describe(comm, "config")` prints the values in effect and where each came from. Sizes may end
in K, M or G (binary).

"Equal" marks what must be the same on all ranks; the ranks compare it when they meet, and a
difference is `mismatch` on every rank.

| key | environment | default | unit | accepted | equal | meaning |
|---|---|---|---|---|---|---|
)";

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

std::string config_markdown() {
  const Config defaults;
  std::string text(kHead);
  for (const Field& field : fields()) {
    const std::string value = field.text_of(defaults);
    text += "| `" + std::string(field.name) + "` | `" + field.environment_name() + "` | " +
            (value.empty() ? "" : "`" + value + "`") + " | " + std::string(field.unit) + " | " +
            field.accepted() + " | " + (field.agreed() ? "yes" : "") + " | " +
            std::string(field.meaning) + " |\n";
  }
  return text;
}

}  // namespace nezha
