#include "context/welcome.h"

#include "base/blob.h"
#include "rendezvous/store.h"

namespace nezha::context {
namespace {

// Leaves room in a value for a part's own numbers and for the proof that follows it.
constexpr size_t kPartBytesMax = rendezvous::kValueBytesMax - 1024;

// Takes `agreed` out of a record that has the same one. It is hundreds of bytes, and nearly all
// ranks, be they 20,000, are configured alike.
std::string without_agreed(const std::string& joined, const std::string& agreed) {
  JoinRecord record;
  if (!decode(joined, &record) || record.agreed != agreed) return joined;
  record.agreed.clear();
  return encode(record);
}

void cover(std::string_view bytes, Welcome* welcome) {
  welcome->bytes += BlobWriter().text(bytes).take();
}

}  // namespace

bool begin(std::string_view head, Welcome* welcome) {
  Welcome read;
  if (!decode(head, &read.head)) return false;
  cover(head, &read);
  *welcome = std::move(read);
  return true;
}

std::string add_part(std::string_view bytes, size_t ranks, Welcome* welcome) {
  WelcomePart part;
  if (!decode(bytes, &part)) return "it is cut off, or no part of a welcome";
  const size_t have = welcome->entries.size();
  if (part.first != have) {
    return "it begins with rank " + std::to_string(part.first) + " in place of rank " +
           std::to_string(have);
  }
  if (part.entries.empty()) return "it is empty";
  if (part.entries.size() > ranks - have) {
    return "it goes on to rank " + std::to_string(have + part.entries.size() - 1) + " of a job of " +
           std::to_string(ranks);
  }
  for (WelcomePart::Entry& entry : part.entries) welcome->entries.push_back(std::move(entry));
  cover(bytes, welcome);
  return "";
}

bool read_joined(const Welcome& welcome, size_t rank, JoinRecord* record) {
  if (rank >= welcome.entries.size() || !decode(welcome.entries[rank].joined, record)) return false;
  if (record->agreed.empty()) record->agreed = welcome.head.agreed;
  return true;
}

std::vector<std::string> parts_of(const std::vector<WelcomePart::Entry>& entries,
                                  const std::string& agreed) {
  std::vector<std::string> parts;
  WelcomePart part;
  size_t size = 0;
  for (size_t rank = 0; rank < entries.size(); ++rank) {
    std::string record = without_agreed(entries[rank].joined, agreed);
    const std::string& told = entries[rank].told;
    const size_t bytes = record.size() + told.size() + 2 * sizeof(uint64_t);  // with their lengths
    if (!part.entries.empty() && size + bytes > kPartBytesMax) {
      parts.push_back(encode(part));
      part = {.first = rank, .entries = {}};
      size = 0;
    }
    part.entries.push_back({std::move(record), told});
    size += bytes;
  }
  parts.push_back(encode(part));
  return parts;
}

std::string part_key(const WelcomeRecord& head, size_t part) {
  return head.session + "/welcome/" + std::to_string(head.sequence) + "/" + std::to_string(part);
}

}  // namespace nezha::context
