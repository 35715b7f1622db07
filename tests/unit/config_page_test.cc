// docs/tuning.md, which is made from the table of options.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/config_fields.h"

namespace nezha {
namespace {

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

std::string page() {
  const Config defaults;
  std::string text(kHead);
  for (const config_internal::Field& field : config_internal::fields()) {
    const std::string value = field.text_of(defaults);
    text += "| `" + std::string(field.name) + "` | `" + field.environment_name() + "` | " +
            (value.empty() ? "" : "`" + value + "`") + " | " + std::string(field.unit) + " | " +
            field.accepted() + " | " + (field.agreed() ? "yes" : "") + " | " +
            std::string(field.meaning) + " |\n";
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
