// interrupt.h over base/interrupt.h.
#include "nezha/interrupt.h"

#include "base/interrupt.h"

extern "C" void nezha_set_interrupt_check(int (*check)(void)) { nezha::set_interrupt_check(check); }
