// Copies that bypass the cache on the way out: for bytes that this core will not read soon (KV pages).
// Thread rule: any thread; no state. The instruction set is chosen at run time.
#pragma once

#include <cstddef>

namespace kvferry {

enum class CopyKind : unsigned char { kPlain = 0, kSse2, kAvx2, kAvx512 };

// Pieces below this many bytes are copied by memcpy. Measured with scattered pieces, cold on both sides
// (memcpy, AVX2, AVX-512 in GB/s): 64 B 2.9, 2.6, 2.5; 128 B 3.7, 4.0, 3.9; 192 B 4.1, 4.9, 4.8; 1152
// B 4.3, 7.6, 8.6; 64 KiB 6.7, 10.4, 10.5.
inline constexpr std::size_t kStreamFloor = 192;

const char* name_of(CopyKind) noexcept;
bool supported(CopyKind) noexcept;  // by this processor
CopyKind best_copy() noexcept;      // what copy_stream uses for pieces from kStreamFloor on

// Copies n bytes between ranges that do not overlap; any alignment. The stores are weakly ordered: call
// copy_fence() before telling anybody that the bytes are there.
void copy_stream(void* dst, const void* src, std::size_t n) noexcept;
// The same by one named way, without the floor; `kind` must be supported().
void copy_stream_as(CopyKind kind, void* dst, const void* src, std::size_t n) noexcept;

// Orders the stores of earlier copies before every later store. Once per quantum is enough.
void copy_fence() noexcept;

}  // namespace kvferry
