#include "base/crypto_use.h"

#include <openssl/crypto.h>
#include <pthread.h>

namespace nezha {
namespace {

// A lock of the system's kind, because it is there before the first thread and after the last destructor.
pthread_rwlock_t uses = PTHREAD_RWLOCK_INITIALIZER;

void before_fork() { pthread_rwlock_wrlock(&uses); }
void in_parent() { pthread_rwlock_unlock(&uses); }
// And anew: threads that wait for it in the parent are not here, and would be counted for ever.
void in_child() {
  pthread_rwlock_unlock(&uses);
  uses = PTHREAD_RWLOCK_INITIALIZER;
}

// When the library is loaded: another thread's first use may be under way when one forks.
[[maybe_unused]] const int installed = pthread_atfork(before_fork, in_parent, in_child);

}  // namespace

CryptoUse::CryptoUse() { pthread_rwlock_rdlock(&uses); }

CryptoUse::~CryptoUse() {
  OPENSSL_thread_stop();
  pthread_rwlock_unlock(&uses);
}

}  // namespace nezha
