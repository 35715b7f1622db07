// Fork: a child of fork() has the parent's sockets but none of its threads, and must not speak for it.
//
// Contract: any thread; a relaxed load or one atomic operation a call. Handles made before a fork are
// refused in the child, and their memory is left alone there, so that a child that exits disturbs nobody.
// The child's copies of held descriptors are closed as soon as it starts: a peer must see the connections
// and listeners of a process that was killed end, however long its children live.
#pragma once

#include <cstdint>

namespace nezha {

// Changes in every child of a fork. The first call installs the handler.
uint32_t process_generation();

// `fd` is closed in children of forks from now on, until it is dropped. Of descriptors beyond 65,535 the
// children keep their copies. Returns the generation of the process that holds it.
uint32_t hold_descriptor(int fd);
void drop_descriptor(int fd);

}  // namespace nezha
