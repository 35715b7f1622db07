// Schedules as a user writes them: any bytes are the schedules of all ranks or a sentence that says what
// is wrong; what was read is printed and read again as the same, and the verifier has an answer to it.
#include <string>

#include "base/check.h"
#include "fuzz/fuzz.h"
#include "proof/parser.h"
#include "proof/printer.h"
#include "proof/verifier.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nezha;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto read = schedule::parse_schedules(text);
  if (!read) {
    const std::string sentence = read.status().message();
    NEZHA_CHECK(!sentence.empty() && sentence.size() < 300);
    for (const char letter : sentence) NEZHA_CHECK(letter >= ' ' && letter <= '~');
    return 0;
  }
  const std::string printed = schedule::to_text(read.value().ranks);
  const auto again = schedule::parse_schedules(printed);
  NEZHA_CHECK(again && again.value().ranks == read.value().ranks);
  NEZHA_CHECK(schedule::to_text(again.value().ranks) == printed);
  const auto proof = schedule::verify(read.value().ranks, &read.value().lines);
  NEZHA_CHECK(proof.is_ok() || !proof.status().message().empty());
  return 0;
}
