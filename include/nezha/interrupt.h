/* Calling a thread back that waits in nezha_init, for language bindings and programs with a prompt.
 *
 * Contract: the check belongs to the calling thread, which alone asks it, a few times a second, without
 * locks that the check could need. Once it returns non-zero, nezha_init fails with NEZHA_TIMED_OUT as if
 * its deadline had passed; another check, or NULL for none, starts afresh. Waiting for operations is
 * not affected: nezha_wait takes a timeout, and nezha_abort ends it. */
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
