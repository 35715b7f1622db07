// CryptoUse: calls of OpenSSL, in the middle of which no thread of this process forks. OpenSSL has locks
// that are not made for a fork: what another thread held is held in the child for ever. It also takes
// them when a thread ends that has used it, so nothing that it keeps for a thread outlives a use.
//
// Contract: any thread; around calls that wait for nothing. A fork waits until none is under way. The
// reason for which a call failed is asked for (ERR_get_error) before the use ends.
#pragma once

namespace nezha {

class CryptoUse {
 public:
  CryptoUse();
  ~CryptoUse();
  CryptoUse(const CryptoUse&) = delete;
  CryptoUse& operator=(const CryptoUse&) = delete;
};

}  // namespace nezha
