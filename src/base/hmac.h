// HMAC-SHA256 (RFC 2104, FIPS 180-4): what every proof, and every key that is made of another, is.
//
// Contract: pure functions; any thread. What the bytes mean, and that no two meanings have the same
// bytes, is the caller's business (wire/handshake.h, rendezvous/store_proof.h).
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace nezha {

inline constexpr size_t kMacBytes = 32;
using Mac = std::array<std::byte, kMacBytes>;

Mac hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> message);
// Takes the same time wherever they differ. MACs of different lengths are not the same.
bool same_mac(std::span<const std::byte> expected, std::span<const std::byte> received);

}  // namespace nezha
