#include "wire/frame.h"

#include "base/status.h"
#include "wire/crc32c.h"
#include "wire/little_endian.h"

namespace nezha::wire {
namespace {

// Byte offsets, as in the table of frame.h.
constexpr size_t kAtMagic = 0;
constexpr size_t kAtType = 4;
constexpr size_t kAtFlags = 5;
constexpr size_t kAtStage = 6;
constexpr size_t kAtSlot = 8;
constexpr size_t kAtCollective = 10;
constexpr size_t kAtDtype = 11;
constexpr size_t kAtOp = 12;
constexpr size_t kAtAlgorithm = 13;
constexpr size_t kAtRoot = 14;
constexpr size_t kAtComm = 16;
constexpr size_t kAtOpSeq = 24;
constexpr size_t kAtCount = 30;
constexpr size_t kAtChunk = 36;
constexpr size_t kAtLength = 40;
constexpr size_t kAtAck = 44;
constexpr size_t kAtCredit = 48;
constexpr size_t kAtPlan = 56;
constexpr size_t kAtCrc = 60;
static_assert(kAtCrc + sizeof(uint32_t) == kHeaderBytes);

uint32_t checksum(const std::byte* header) {
  return crc32c(std::span<const std::byte>(header, kAtCrc));
}

uint32_t payload_limit(FrameType type) {
  switch (type) {
    case FrameType::data: return kPayloadBytesMax;
    case FrameType::failure:
    case FrameType::rail: return kFailureBytesMax;
    case FrameType::agree: return kAgreeBytesMax;
    default: return 0;
  }
}

// Which flags mean something depends on the type.
uint8_t known_flags(FrameType type) {
  switch (type) {
    case FrameType::data: return kFlagAckNow | kFlagTimed | (kGenerationMax << kGenerationShift);
    case FrameType::heartbeat: return kFlagBusy | kFlagDeaf;
    default: return 0;
  }
}

bool enums_known(const std::byte* in, FrameType type) {
  if (std::to_integer<uint8_t>(in[kAtCollective]) >= kCollectiveCount) return false;
  if (std::to_integer<uint8_t>(in[kAtDtype]) >= kDtypeCount) return false;
  if (std::to_integer<uint8_t>(in[kAtOp]) >= kReduceOpCount) return false;
  if (std::to_integer<uint8_t>(in[kAtAlgorithm]) >= kAlgorithmCount) return false;
  if (type == FrameType::reserve) {
    const uint16_t kind = load_le<uint16_t>(in + kAtStage);
    return kind >= 1 && kind <= kReserveKinds;
  }
  if (type != FrameType::failure) return true;
  const uint16_t code = load_le<uint16_t>(in + kAtSlot);
  return code > static_cast<uint16_t>(Code::ok) && code <= static_cast<uint16_t>(Code::internal);
}

// Whether the field at the root's offset may have rails. Other frames, such as those about a failure,
// have something else there.
bool has_rails(const FrameHeader& header) {
  return header.type == FrameType::data && is_divided_alike(header.op.collective);
}

}  // namespace

std::string_view name_of(const OpDescriptor& op) {
  const bool splits = op.collective == Collective::all_reduce && op.root == kSplitRoot;
  return splits ? "split" : name_of(op.collective);
}

std::string_view name_of(HeaderError error) {
  switch (error) {
    case HeaderError::none: return "none";
    case HeaderError::bad_magic: return "bad magic number or wire version";
    case HeaderError::bad_crc: return "header checksum does not match";
    case HeaderError::bad_type: return "unknown frame type";
    case HeaderError::bad_flags: return "unknown flags";
    case HeaderError::bad_enum:
      return "unknown collective, dtype, op, algorithm, error code or kind of reservation";
    case HeaderError::too_long: return "payload longer than this frame type allows";
  }
  return "unknown header error";
}

void encode(const FrameHeader& header, HeaderBytes out) {
  std::byte* const at = out.data();
  store_le(at + kAtMagic, kMagic);
  at[kAtType] = static_cast<std::byte>(header.type);
  at[kAtFlags] = static_cast<std::byte>(header.flags);
  store_le(at + kAtStage, header.stage);
  store_le(at + kAtSlot, header.slot);
  at[kAtCollective] = static_cast<std::byte>(header.op.collective);
  at[kAtDtype] = static_cast<std::byte>(header.op.dtype);
  at[kAtOp] = static_cast<std::byte>(header.op.op);
  at[kAtAlgorithm] = static_cast<std::byte>(header.op.algorithm);
  const bool rails = has_rails(header) && header.op.root == 0;
  store_le(at + kAtRoot, rails ? header.rails : header.op.root);
  store_le(at + kAtComm, header.comm);
  store_le(at + kAtChunk, header.chunk);
  store_le48(at + kAtOpSeq, header.op_seq);
  store_le48(at + kAtCount, header.op.count);
  store_le(at + kAtLength, header.length);
  store_le(at + kAtAck, header.ack);
  store_le(at + kAtCredit, header.credit);
  store_le(at + kAtPlan, header.op.plan);
  store_le(at + kAtCrc, checksum(at));
}

HeaderError decode(ConstHeaderBytes in, FrameHeader* out) {
  const std::byte* const at = in.data();
  // Magic first, so that a stranger who speaks another protocol is named as one.
  if (load_le<uint32_t>(at + kAtMagic) != kMagic) return HeaderError::bad_magic;
  if (load_le<uint32_t>(at + kAtCrc) != checksum(at)) return HeaderError::bad_crc;
  const uint8_t type_value = std::to_integer<uint8_t>(at[kAtType]);
  if (type_value < static_cast<uint8_t>(FrameType::data) ||
      type_value > static_cast<uint8_t>(kFrameTypeLast)) {
    return HeaderError::bad_type;
  }
  const auto type = static_cast<FrameType>(type_value);
  const uint8_t flags = std::to_integer<uint8_t>(at[kAtFlags]);
  if ((flags & ~known_flags(type)) != 0) return HeaderError::bad_flags;
  if (!enums_known(at, type)) return HeaderError::bad_enum;
  const uint32_t length = load_le<uint32_t>(at + kAtLength);
  if (length > payload_limit(type)) return HeaderError::too_long;

  out->type = type;
  out->flags = flags;
  out->stage = load_le<uint16_t>(at + kAtStage);
  out->slot = load_le<uint16_t>(at + kAtSlot);
  out->comm = load_le<uint64_t>(at + kAtComm);
  out->chunk = load_le<uint32_t>(at + kAtChunk);
  out->op_seq = load_le48(at + kAtOpSeq);
  out->length = length;
  out->ack = load_le<uint32_t>(at + kAtAck);
  out->credit = load_le<uint64_t>(at + kAtCredit);
  out->op.collective = static_cast<Collective>(at[kAtCollective]);
  out->op.dtype = static_cast<Dtype>(at[kAtDtype]);
  out->op.op = static_cast<ReduceOp>(at[kAtOp]);
  out->op.algorithm = static_cast<Algorithm>(at[kAtAlgorithm]);
  const auto root = load_le<uint16_t>(at + kAtRoot);
  const bool rails = has_rails(*out) && root != kSplitRoot;
  out->op.root = rails ? 0 : root;
  out->rails = rails ? root : 0;
  out->op.count = load_le48(at + kAtCount);
  out->op.plan = load_le<uint32_t>(at + kAtPlan);
  return HeaderError::none;
}

}  // namespace nezha::wire
