// Blobs come back as they were written, and a reader survives whatever else it is given.
#include "base/blob.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>

#include "base/hex.h"

namespace nezha {
namespace {

std::string sample() {
  BlobWriter writer;
  writer.number(7).text("eth0").real(-2.5).text("").number(std::numeric_limits<uint64_t>::max());
  return writer.take();
}

// Reads `bytes` as sample() is read; true when that went well to the end.
bool reads_as_sample(std::string_view bytes) {
  BlobReader reader(bytes);
  reader.number();
  reader.text();
  reader.real();
  reader.text();
  reader.number();
  return reader.done();
}

TEST(Blob, NumbersBeginWithTheLowByte) {
  BlobWriter writer;
  writer.number(0x0102030405060708).real(-2.0).text("a");
  const std::string bytes = writer.take();
  EXPECT_EQ(hex(std::as_bytes(std::span<const char>(bytes))),
            "0807060504030201" "00000000000000c0" "0100000000000000" "61");
}

TEST(Blob, ReadsWhatWasWritten) {
  const std::string bytes = sample();
  BlobReader reader(bytes);
  EXPECT_EQ(reader.number(), 7U);
  EXPECT_EQ(reader.text(), "eth0");
  EXPECT_EQ(reader.real(), -2.5);
  EXPECT_EQ(reader.text(), "");
  EXPECT_FALSE(reader.done());
  EXPECT_EQ(reader.number(), std::numeric_limits<uint64_t>::max());
  EXPECT_TRUE(reader.done());
}

TEST(Blob, KeepsBytesThatAreNoText) {
  const std::string odd("a\0b\xFF", 4);
  BlobWriter writer;
  const std::string bytes = writer.text(odd).take();
  EXPECT_EQ(BlobReader(bytes).text(), odd);
}

TEST(Blob, EveryTruncationIsNoticed) {
  const std::string bytes = sample();
  for (size_t size = 0; size < bytes.size(); ++size) {
    // An allocation of its own, so that a sanitizer sees one byte read too many.
    const std::string cut(bytes.data(), size);
    EXPECT_FALSE(reads_as_sample(cut)) << size;
  }
  EXPECT_TRUE(reads_as_sample(bytes));
  EXPECT_FALSE(reads_as_sample(bytes + "x"));  // nor may anything follow
}

TEST(Blob, AnImpossibleLengthReadsNothing) {
  for (const uint64_t length : {uint64_t{6}, uint64_t{1} << 32, uint64_t{1} << 63,
                                std::numeric_limits<uint64_t>::max(),
                                std::numeric_limits<uint64_t>::max() - 7}) {
    BlobWriter writer;
    const std::string bytes = writer.number(length).take() + "12345";
    BlobReader reader(bytes);
    EXPECT_EQ(reader.text(), "");
    EXPECT_FALSE(reader.ok());
  }
}

TEST(Blob, AfterAFailureEverythingIsEmpty) {
  BlobWriter writer;
  const std::string bytes = writer.number(1000).number(1).number(2).take();
  BlobReader reader(bytes);
  EXPECT_EQ(reader.text(), "");
  EXPECT_EQ(reader.number(), 0U);
  EXPECT_EQ(reader.real(), 0.0);
  EXPECT_EQ(reader.text(), "");
  EXPECT_FALSE(reader.ok());
  EXPECT_FALSE(reader.done());
}

TEST(Blob, RandomBytesNeverReadTooFar) {
  std::mt19937_64 generator(99);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(generator() % 40, '\0');
    for (char& byte : bytes) byte = generator() % 3 == 0 ? static_cast<char>(generator()) : '\0';
    BlobReader reader(bytes);
    size_t texts = 0;
    for (int i = 0; i < 6; ++i) texts += reader.text().size();
    EXPECT_LE(texts, bytes.size());
  }
}

}  // namespace
}  // namespace nezha
