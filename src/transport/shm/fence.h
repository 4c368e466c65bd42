// Memory barriers for words that two processes share. Named by what they order; no state, any thread.
#pragma once

#include <atomic>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kvferry::shm {

// Earlier loads happen before later loads. x86 keeps loads in order: only the compiler has to be told.
inline void load_fence() noexcept {
#if defined(__x86_64__)
  __asm__ __volatile__("" ::: "memory");
#else
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
}

// Earlier loads and stores, non-temporal ones included, happen before later ones.
inline void full_fence() noexcept {
#if defined(__x86_64__)
  _mm_mfence();
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace kvferry::shm
