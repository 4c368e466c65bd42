// Whether this object was compiled with a sanitizer: such a build keeps freed memory and is several times
// slower, so that figures of memory and time mean something else there. GCC and Clang say it in different
// ways.
#pragma once

namespace kvferry {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace kvferry
