// What somebody may have written into the store in a rank's name: any bytes, and changes to honest
// records. What is accepted, in which texts have been cleaned, reads back as it is then, and its numbers
// are in their ranges.
#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/ip_prefix.h"
#include "context/records.h"
#include "fuzz/fuzz.h"

namespace nezha::context {
namespace {

template <class Record>
bool comes_back(std::string_view bytes, Record* record) {
  if (!decode(bytes, record)) return false;
  const auto clean = encode(*record);
  NEZHA_CHECK(clean.size() <= bytes.size());
  Record again;
  NEZHA_CHECK(decode(clean, &again) && encode(again) == clean);
  return true;
}

void check(std::string_view bytes) {
  JoinRecord join;
  if (comes_back(bytes, &join)) {
    NEZHA_CHECK(join.address.rank >= 0 && join.address.rank <= 65535);
    for (const transport::RailAddress& rail : join.address.rails) {
      auto prefix = parse_ip_prefix(rail.address);
      NEZHA_CHECK(std::isfinite(rail.speed_bits_per_s) && rail.speed_bits_per_s >= 0);
      NEZHA_CHECK(rail.blob.size() <= transport::kRailBlobBytesMax);
      if (rail.address.empty()) {
        NEZHA_CHECK(!rail.variant.empty());
        continue;
      }
      NEZHA_CHECK(prefix && rail.prefix_length <= prefix->bits());
      prefix->length = rail.prefix_length;
      NEZHA_CHECK(prefix->contains(*prefix));
    }
  }
  WelcomeRecord welcome;
  if (comes_back(bytes, &welcome)) NEZHA_CHECK(welcome.parts >= 1 && welcome.parts <= 65535);
  WelcomePart part;
  if (comes_back(bytes, &part)) NEZHA_CHECK(part.entries.size() * 16 <= bytes.size());
  ReportRecord report;
  if (comes_back(bytes, &report)) NEZHA_CHECK(!name_of(report.outcome.code()).empty());
  nezha::WipedText record;
  NEZHA_CHECK(!unseal(nezha::wire::secret_from_text("another"), "job/welcome", bytes, &record));
}

std::string honest(size_t which) {
  JoinRecord join;
  join.nonce = "0123456789abcdef";
  join.agreed = "chunk_bytes=262144";
  join.key = std::string(32, 5);
  join.address = {2, "host", {{"eth0", "10.1.0.1", 24, 1500, 1e10, "tcp", "", "where"},
                              {"eth1", "fd00::1", 64, 9000, 0}}};
  if (which == 0) return encode(join);
  WelcomeRecord welcome;
  welcome.session = "0123";
  welcome.agreed = join.agreed;
  if (which == 1) return std::string(encode(welcome));
  if (which == 2) return encode(WelcomePart{2, {{encode(join)}, {"", std::string(32, 7)}}});
  return encode(ReportRecord{error(Code::peer_lost, "no rail").with_peer(1), {"eth1"}});
}

}  // namespace
}  // namespace nezha::context

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nezha::context;
  check({reinterpret_cast<const char*>(data), size});
  if (size == 0) return 0;
  // Edits of three bytes each: where, what, and whether it replaces a byte, or eight, or cuts.
  std::string bytes = honest(data[0] % 4);
  for (size_t at = 1; at + 3 <= size; at += 3) {
    const size_t place = data[at] % bytes.size();
    switch (data[at + 2] % 4) {
      case 0: bytes[place] = static_cast<char>(data[at + 1]); break;
      case 1: bytes.replace(place, 8, 8, static_cast<char>(data[at + 1])); break;
      case 2: bytes.insert(place, 1, static_cast<char>(data[at + 1])); break;
      default: bytes.erase(place, std::min<size_t>(data[at + 1] % 8, bytes.size() - 1)); break;
    }
  }
  check(bytes);
  return 0;
}
