// What a module has from its host, and what a host asks of a module.
#include "base/module.h"

#include <gtest/gtest.h>

#include "base/interrupt.h"
#include "base/log_sink.h"

namespace nezha {
namespace {

constexpr int kObject = 7;
log::Level given_level = log::Level::error;
std::string warned;

const Module& other() {
  static const Module module{"numbers", &kObject, [](log::Level level) { given_level = level; }};
  return module;
}

TEST(Module, IsFoundByNameAndByWhatItHas) {
  register_module("other", other());
  auto found = open_module("other", "numbers");
  ASSERT_TRUE(found.is_ok()) << found.status().message();
  EXPECT_EQ(*found, &kObject);
  const auto rails = open_module("other", "rails");
  EXPECT_EQ(rails.status().code(), Code::unsupported);
  EXPECT_EQ(rails.status().message(), "the module other has no rails");
  const auto nothing = open_module("nothing", "rails");
  EXPECT_EQ(nothing.status().code(), Code::unsupported);
  EXPECT_NE(nothing.status().message().find("the module nothing is not there"), std::string::npos);
}

TEST(Module, HasTheLogLevelOfTheMomentInWhichItIsAskedFor) {
  register_module("other", other());
  const log::Level before = log::level();
  for (const log::Level level : {log::Level::trace, log::Level::warn}) {
    log::set_level(level);
    ASSERT_TRUE(open_module("other", "numbers").is_ok());
    EXPECT_EQ(given_level, level);
  }
  log::set_level(before);
}

TEST(Module, HasTheLogAndTheInterruptsOfItsHost) {
  ModuleHost host{"another", log::level, nullptr,
                  [](const char*, const std::string& text) { warned = text; },
                  [] { return true; },
                  [](const Clock&, Nanoseconds deadline) { return deadline + 1; }};
  EXPECT_FALSE(join_host(host));
  EXPECT_FALSE(interrupted());
  host.version = kVersion;
  ASSERT_TRUE(join_host(host));
  EXPECT_TRUE(interrupted());
  EXPECT_EQ(end_of_piece(system_clock(), 5), 6);
  log::warn_once("module", "once");
  EXPECT_EQ(warned, "once");
  set_interrupts({});
  log::set_warn_once(nullptr);
  EXPECT_FALSE(interrupted());
  EXPECT_EQ(end_of_piece(system_clock(), 5), 5);
}

}  // namespace
}  // namespace nezha
