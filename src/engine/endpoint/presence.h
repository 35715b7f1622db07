// Presence: whether a peer is here, leaves, or is gone for good.
//
// Contract: a value; any thread.
#pragma once

#include <cstdint>

#include "base/transitions.h"

namespace nezha::engine {

enum class Presence : uint8_t {
  here,     // also before it was first reached
  leaving,  // it said goodbye on some connection, and another one is up
  left,     // it said goodbye, and no connection with it comes back
  lost,     // it was given up
  exited,   // it was given up, and its process is known to have ended
};

// A peer that was given up may say goodbye later, on a connection that was still up.
inline constexpr Transitions<Presence> kPresences = {
    {Presence::here, {Presence::leaving, Presence::lost, Presence::exited}},
    {Presence::leaving, {Presence::left, Presence::lost, Presence::exited}},
    {Presence::lost, {Presence::left}},
    {Presence::exited, {Presence::left}},
};

}  // namespace nezha::engine
