/* Calling a thread back that waits inside the library, for language bindings and programs with a prompt.
 *
 * Contract: the check belongs to the calling thread, which alone asks it, a few times a second, without
 * locks that the check could need. Once it returns non-zero, every call of this thread that waits ends
 * within half a second, until another check, or NULL for none, starts afresh:
 *
 *   nezha_init                         fails with NEZHA_TIMED_OUT, as if its deadline had passed
 *   nezha_wait                         ends with NEZHA_TIMED_OUT; the operation continues
 *   operations without a work handle,  abort the communicator, as nezha_comm_abort, and fail with
 *   nezha_group_end without one,       NEZHA_ABORTED, unless they were complete by then: no memory of the
 *   nezha_split, nezha_shrink          caller is in use any more when they return
 *   nezha_work_free                    aborts the communicator
 *   nezha_destroy                      leaves at once, without waiting for what the others still need
 *
 * All other calls return soon by themselves. */
#ifndef NEZHA_INTERRUPT_H_
#define NEZHA_INTERRUPT_H_

#include "nezha/nezha.h"

#ifdef __cplusplus
extern "C" {
#endif

NEZHA_API void nezha_set_interrupt_check(int (*check)(void));

#ifdef __cplusplus
}
#endif

#endif /* NEZHA_INTERRUPT_H_ */
