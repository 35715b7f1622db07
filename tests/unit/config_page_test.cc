// docs/tuning.md, which is made from the table of options.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <sstream>

#include "base/config_fields.h"

namespace nezha {
namespace {

constexpr std::string_view kHead = R"(# Tuning

This page is made from the table in `src/base/config.h`; change the table, not the page.

The variable of an option is `NEZHA_` and the key in capitals, such as `NEZHA_RAILS`. A value comes
from, strongest first:

1. the code: `nezha.init(config=...)` or `nezha_init_options.config`, as `key=value` lines;
2. the environment;
3. a file of `key = value` lines with `#` comments: the one that `NEZHA_CONF_FILE` names, else
   `~/.nezha.conf`;
4. the default.

An empty variable counts as not set. An unknown variable, or key in the file, is a warning in the
log with the nearest known name. An unknown key in code, or a bad value anywhere, is
`invalid_argument`. `nezha_describe(comm, "config")` prints the values in effect and their origin.
Sizes may end in K, M or G (binary).

"Equal" marks options that must be the same on all ranks. A difference is `mismatch` on every rank.
An empty cell of "accepted" is any text.

)";

constexpr std::string_view kColumns = R"(| key | default | accepted | equal | meaning |
|---|---|---|---|---|
)";

// The options that matter in most jobs, which come first.
constexpr std::array<FieldIndex, 8> kFirst = {
    FieldIndex::rails,     FieldIndex::secret_file, FieldIndex::tls,              FieldIndex::bind_ports,
    FieldIndex::timeout_s, FieldIndex::outage_s,    FieldIndex::calibration_file, FieldIndex::log_level};

bool is_first(size_t index) {
  return std::find(kFirst.begin(), kFirst.end(), static_cast<FieldIndex>(index)) != kFirst.end();
}

std::string number_text(double number) {
  std::ostringstream text;
  text << std::setprecision(10) << number;
  return text.str();
}

// As Field::accepted, shorter.
std::string accepted_of(const config_internal::Field& field) {
  if (field.unit.empty()) {
    std::string accepted = field.accepted();
    if (accepted == "any text") return "";
    if (accepted.starts_with("one of ")) accepted.erase(0, 7);
    return accepted.substr(0, accepted.find(" ("));
  }
  return number_text(field.low) + " to " + number_text(field.high) + " " + std::string(field.unit);
}

std::string row_of(size_t index) {
  const config_internal::Field& field = config_internal::fields()[index];
  const std::string value = field.text_of(Config());
  return "| `" + std::string(field.name) + "` | " + (value.empty() ? "" : "`" + value + "`") + " | " +
         accepted_of(field) + " | " + (field.agreed() ? "yes" : "") + " | " + std::string(field.meaning) +
         " |\n";
}

std::string page() {
  std::string text = std::string(kHead) + "## The options that matter most\n\n" + std::string(kColumns);
  for (const FieldIndex index : kFirst) text += row_of(static_cast<size_t>(index));
  text += "\n## The others\n\n" + std::string(kColumns);
  for (size_t index = 0; index < kConfigFields; ++index) {
    if (!is_first(index)) text += row_of(index);
  }
  return text;
}

// The tests run in the root of the checkout.
std::filesystem::path tuning_page() { return "docs/tuning.md"; }

TEST(ConfigPage, IsMadeFromTheTable) {
  std::ifstream file(tuning_page());
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(text.str() == page())
      << "docs/tuning.md is out of date; in the root of the checkout, write it again with\n  "
         "build/release/tests/unit_tests "
         "--gtest_also_run_disabled_tests --gtest_filter=ConfigPage.DISABLED_WriteItAgain";
}

TEST(ConfigPage, DISABLED_WriteItAgain) { std::ofstream(tuning_page()) << page(); }

}  // namespace
}  // namespace nezha
