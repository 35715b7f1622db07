#include "context/records.h"

#include <algorithm>
#include <cstring>

#include "base/blob.h"
#include "base/clean_text.h"
#include "wire/key_pair.h"

namespace nezha::context {
namespace {

constexpr uint64_t kVersion = 7;
constexpr size_t kSentenceMax = 4096;
constexpr uint64_t kRanksMax = 65535;
constexpr uint64_t kRailsMax = 1024;
constexpr size_t kSessionBytesMax = 64;

wire::Mac mac_of_record(const wire::Secret& secret, std::string_view place, std::string_view record) {
  return wire::record_mac_of(secret, BlobWriter().text(place).text(record).take());
}

}  // namespace

std::string encode(const JoinRecord& record) {
  BlobWriter writer;
  writer.number(kVersion).text(record.nonce).text(record.agreed);
  writer.number(static_cast<uint64_t>(record.address.rank)).text(record.address.host);
  writer.number(record.address.rails.size());
  for (const transport::RailAddress& rail : record.address.rails) write(writer, rail);
  return writer.text(record.key).take();
}

bool decode(std::string_view bytes, JoinRecord* record) {
  BlobReader reader(bytes);
  if (reader.number() != kVersion) return false;
  JoinRecord read;
  read.nonce = reader.text();
  read.agreed = reader.text();
  const uint64_t rank = reader.number();
  read.address.rank = static_cast<int>(std::min(rank, kRanksMax));
  read.address.host = reader.text();
  const uint64_t rails = reader.number();
  if (rank > kRanksMax || rails > kRailsMax) return false;
  for (uint64_t i = 0; i < rails; ++i) {
    if (!transport::read(reader, &read.address.rails.emplace_back())) return false;
  }
  read.key = reader.text();
  if (!reader.done() || (!read.key.empty() && read.key.size() != wire::kPublicKeyBytes)) return false;
  *record = std::move(read);
  return true;
}

std::string encode(const WelcomeRecord& record) {
  BlobWriter writer;
  writer.number(kVersion).text(record.session).number(record.sequence);
  return writer.text(record.agreed).number(record.parts).take();
}

bool decode(std::string_view bytes, WelcomeRecord* record) {
  BlobReader reader(bytes);
  if (reader.number() != kVersion) return false;
  WelcomeRecord read;
  read.session = reader.text();
  read.sequence = reader.number();
  if (read.session.size() > kSessionBytesMax) return false;
  read.agreed = reader.text();
  read.parts = reader.number();
  if (!reader.done() || read.parts == 0 || read.parts > kRanksMax) return false;
  *record = std::move(read);
  return true;
}

std::string encode(const WelcomePart& part) {
  BlobWriter writer;
  writer.number(kVersion).number(part.first).number(part.entries.size());
  for (const WelcomePart::Entry& entry : part.entries) writer.text(entry.joined).text(entry.told);
  return writer.take();
}

bool decode(std::string_view bytes, WelcomePart* part) {
  BlobReader reader(bytes);
  if (reader.number() != kVersion) return false;
  WelcomePart read;
  read.first = reader.number();
  const uint64_t ranks = reader.number();
  if (read.first > kRanksMax || ranks > kRanksMax) return false;
  for (uint64_t rank = 0; rank < ranks && reader.ok(); ++rank) {
    WelcomePart::Entry& entry = read.entries.emplace_back();
    entry.joined = reader.text();
    entry.told = reader.text();
    if (!entry.told.empty() && entry.told.size() != wire::kSecretBytes) return false;
  }
  if (!reader.done()) return false;
  *part = std::move(read);
  return true;
}

WipedText seal(const wire::Secret& secret, std::string_view place, std::string_view record) {
  const wire::Mac mac = mac_of_record(secret, place, record);
  WipedText sealed(record);
  sealed.append(reinterpret_cast<const char*>(mac.data()), mac.size());
  return sealed;
}

bool unseal(const wire::Secret& secret, std::string_view place, std::string_view sealed,
            WipedText* record) {
  wire::Mac claimed;
  if (sealed.size() < claimed.size()) return false;
  const std::string_view bytes = sealed.substr(0, sealed.size() - claimed.size());
  std::memcpy(claimed.data(), sealed.data() + bytes.size(), claimed.size());
  if (!same_mac(mac_of_record(secret, place, bytes), claimed)) return false;
  *record = bytes;
  return true;
}

std::string encode(const ReportRecord& record) {
  BlobWriter writer;
  writer.number(static_cast<uint64_t>(record.outcome.code()));
  writer.number(static_cast<uint64_t>(record.outcome.peer + 1));
  writer.text(record.outcome.message()).number(record.left_out.size());
  for (const std::string& sentence : record.left_out) writer.text(sentence);
  return writer.take();
}

bool decode(std::string_view bytes, ReportRecord* record) {
  BlobReader reader(bytes);
  const uint64_t code = reader.number();
  const uint64_t peer = reader.number();
  const std::string message = cleaned(reader.view(), kSentenceMax);
  const uint64_t sentences = reader.number();
  if (code > static_cast<uint64_t>(Code::internal) || peer > kRanksMax) return false;
  ReportRecord read;
  read.outcome = Status(static_cast<Code>(code), message).with_peer(static_cast<int>(peer) - 1);
  for (uint64_t i = 0; i < sentences && reader.ok(); ++i) {
    read.left_out.push_back(cleaned(reader.view(), kSentenceMax));
  }
  if (!reader.done()) return false;
  *record = std::move(read);
  return true;
}

}  // namespace nezha::context
