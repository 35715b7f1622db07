// Fork: a child of fork() has the parent's sockets but none of its threads, and must not speak for it.
//
// Contract: any thread; one relaxed load a call. Handles made before a fork are refused in the child,
// and their memory is left alone there, so that a child that exits disturbs nobody.
#pragma once

#include <cstdint>

namespace nezha::capi {

// Changes in every child of a fork. The first call installs the handler.
uint32_t process_generation();

}  // namespace nezha::capi
