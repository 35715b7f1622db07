// Numbers of messages: how much memory those that nobody has received may take, and into what chunks long
// ones are divided.
//
// Contract: constants; any thread. The first three and the least chunk are numbers of the protocol, equal
// on all ranks (docs/wire_format.md, "Messages").
#pragma once

#include <cstdint>

#include "wire/frame.h"

namespace nezha::engine {

// --------------------------------------------------------------------------------------------- bounds
// The most payload, in bytes, of one peer that waits for receives. A short message costs a record, too.
inline constexpr uint64_t kEagerBytesMax = 1024 * 1024;
inline constexpr uint64_t kRecordCost = 256;
// The most messages of one peer that nobody has received. A sender announces at most half of them,
// because its short messages count, too.
inline constexpr uint64_t kWaitingMax = 65536;
// The most at a node, which is asked one thing at a time.
inline constexpr uint64_t kWaitingAtNodeMax = 8;

// --------------------------------------------------------------------------------------------- chunks
// No sender may announce chunks of fewer bytes, which is the least chunk_bytes: a receiver keeps a byte
// for each chunk, so at most 1/4096 of a message.
inline constexpr uint32_t kChunkBytesMin = 4096;
// A message is divided into chunks of so many bytes at least, where chunk_bytes allows it: the headers of
// shorter ones cost more than a second rail brings.
inline constexpr uint64_t kChunkBytesWorthARail = 16 * 1024;

static_assert(kChunkBytesMin <= kChunkBytesWorthARail && kChunkBytesWorthARail <= wire::kPayloadBytesMax);
static_assert(kWaitingAtNodeMax < kWaitingMax);
// All that one sender may have announced, and its short messages, are no more than a receiver takes.
static_assert(kEagerBytesMax / kRecordCost + kWaitingMax / 2 <= kWaitingMax);

}  // namespace nezha::engine
