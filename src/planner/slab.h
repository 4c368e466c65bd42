// One layer's K or V (or latent) on one rank as strides, and the copy between two such slabs. Pure; values;
// any thread. Orders (NHD, HND, stacked, side by side, blended) differ only in strides, so there is one code
// path for all of them (docs/adr/0004-planner.md).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvferry/error.h"

namespace kvferry::planner {

// The byte of (page, token in page, head) is base + page * page_stride + token * token_stride +
// (head - head_first) * head_stride; head_bytes bytes lie there together. All strides are in bytes.
struct Slab {
  std::uint64_t base = 0;
  std::uint64_t page_stride = 0;
  std::uint64_t token_stride = 0;
  std::uint64_t head_stride = 0;
  std::uint32_t page_tokens = 1;
  std::uint32_t pages = 0;       // a page index is valid when it is below this
  std::uint32_t head_first = 0;  // global id of the first KV head held
  std::uint32_t heads = 1;
  std::uint32_t head_bytes = 0;
  bool operator==(const Slab&) const = default;
};

// `repeat` pieces of `bytes` bytes; piece i begins at from + i * from_step and to + i * to_step.
struct Segment {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  std::uint64_t bytes = 0;
  std::uint64_t repeat = 1;
  std::uint64_t from_step = 0;
  std::uint64_t to_step = 0;
  bool operator==(const Segment&) const = default;
};

// What goes from one slab to another for every pair of page spans, with the strides already joined.
struct Template {
  Slab from;
  Slab to;
  std::uint32_t head_first = 0;  // global heads [head_first, head_first + heads) move
  std::uint32_t heads = 0;
  bool heads_joined = false;   // all heads of one token lie together on both sides
  bool tokens_joined = false;  // and so do the tokens of one page
};

// Compiles the heads that both hold and that lie in [head_first, head_first + heads); a template with no
// heads is legal and moves nothing. kMismatch with both values: head_bytes differ. kUsage: a slab without
// pages, tokens, heads or bytes. Page sizes may differ.
Result<Template> compile(const Slab& from, const Slab& to, std::uint32_t head_first, std::uint32_t heads);

// Tokens [first, first + count) of one request; block tables are indexed by token / page_tokens from token 0.
struct TokenRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

// Segments of these tokens, in token order, with neighbours merged. kUsage before any segment is told: a
// table too short for the tokens, or a page index out of range (an index already multiplied by the page size
// shows here).
Result<std::vector<Segment>> instantiate(const Template& plan, TokenRange tokens,
                                         std::span<const std::uint32_t> from_pages,
                                         std::span<const std::uint32_t> to_pages);

}  // namespace kvferry::planner
