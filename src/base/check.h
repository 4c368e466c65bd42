// Assertions. KVF_CHECK is on in every build and ends the process with a message: it is for our own mistakes
// only, never for what a peer, a file or an operator can cause. KVF_DCHECK is the same in debug builds and is
// not evaluated else. Thread rule: any thread.
#pragma once

namespace kvferry {

// Prints "FILE:LINE: check failed: CONDITION: MESSAGE" to stderr and aborts. Allocates nothing.
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const char* message) noexcept;

}  // namespace kvferry

#define KVF_CHECK(condition, message)                                          \
  do {                                                                         \
    if (!(condition)) [[unlikely]] {                                           \
      ::kvferry::check_failed(__FILE_NAME__, __LINE__, #condition, (message)); \
    }                                                                          \
  } while (false)

#ifdef NDEBUG
#define KVF_DCHECK(condition, message)           \
  do {                                           \
    if (false && static_cast<bool>(condition)) { \
      static_cast<void>(message);                \
    }                                            \
  } while (false)
#else
#define KVF_DCHECK(condition, message) KVF_CHECK(condition, message)
#endif
