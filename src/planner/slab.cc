#include "planner/slab.h"

#include <algorithm>
#include <string>
#include <utility>

namespace kvferry::planner {

namespace {

std::string number(std::uint64_t value) { return std::to_string(value); }

tl::unexpected<Error> refused(Code code, std::string why) {
  return fail(code, Who::kConfig, Next::kAfterFix, "layout", std::move(why));
}

bool usable(const Slab& s) { return s.page_tokens > 0 && s.pages > 0 && s.heads > 0 && s.head_bytes > 0; }

bool heads_together(const Slab& s, std::uint32_t moved) {
  return moved == 1 || s.head_stride == s.head_bytes;
}

bool tokens_together(const Slab& s, std::uint32_t moved) {
  return s.token_stride == std::uint64_t{moved} * s.head_bytes;
}

// Which side's table is at fault, and why; empty when it is good for these tokens.
std::string problem_of(const char* side, const Slab& slab, TokenRange tokens,
                       std::span<const std::uint32_t> table) {
  if (tokens.count == 0) {
    return {};
  }
  const std::uint64_t first = tokens.first / slab.page_tokens;
  const std::uint64_t last = (tokens.first + (tokens.count - 1)) / slab.page_tokens;
  if (last >= table.size()) {
    return "the " + std::string(side) + " table has " + number(table.size()) + " pages of " +
           number(slab.page_tokens) + " tokens, token " + number(tokens.first + tokens.count - 1) +
           " needs page " + number(last);
  }
  for (std::uint64_t i = first; i <= last; ++i) {
    if (table[i] >= slab.pages) {
      return "entry " + number(i) + " of the " + side + " table is page " + number(table[i]) +
             ", there are " + number(slab.pages) + " pages";
    }
  }
  return {};
}

std::uint64_t place(const Slab& s, std::uint64_t page, std::uint64_t token, std::uint32_t head) {
  return s.base + page * s.page_stride + token * s.token_stride +
         std::uint64_t{head - s.head_first} * s.head_stride;
}

void add(std::vector<Segment>& out, const Segment& next) {
  if (!out.empty()) {
    Segment& last = out.back();
    if (last.repeat == 1 && next.repeat == 1 && last.from + last.bytes == next.from &&
        last.to + last.bytes == next.to) {
      last.bytes += next.bytes;
      return;
    }
  }
  out.push_back(next);
}

// One span of `count` tokens that crosses no page edge on either side; `from` and `to` are its first byte.
void add_span(const Template& p, std::uint64_t count, std::uint64_t from, std::uint64_t to,
              std::vector<Segment>& out) {
  const std::uint64_t row = std::uint64_t{p.heads} * p.from.head_bytes;
  if (p.tokens_joined) {
    add(out, {from, to, row * count, 1, 0, 0});
    return;
  }
  if (p.heads_joined) {
    add(out, {from, to, row, count, p.from.token_stride, p.to.token_stride});
    return;
  }
  const bool along = p.from.token_stride == p.from.head_bytes && p.to.token_stride == p.to.head_bytes;
  for (std::uint64_t h = 0; h < p.heads; ++h) {
    const std::uint64_t a = from + h * p.from.head_stride;
    const std::uint64_t b = to + h * p.to.head_stride;
    if (along) {
      add(out, {a, b, count * p.from.head_bytes, 1, 0, 0});
    } else {
      add(out, {a, b, p.from.head_bytes, count, p.from.token_stride, p.to.token_stride});
    }
  }
}

}  // namespace

Result<Template> compile(const Slab& from, const Slab& to, std::uint32_t head_first, std::uint32_t heads) {
  if (!usable(from) || !usable(to)) {
    return refused(Code::kUsage, "page_tokens, pages, heads and head_bytes must be above 0 on both sides");
  }
  if (from.head_bytes != to.head_bytes) {
    return refused(Code::kMismatch, "head_bytes is " + number(from.head_bytes) + " at the sender and " +
                                        number(to.head_bytes) + " at the receiver; they must be equal");
  }
  const std::uint64_t first = std::max({head_first, from.head_first, to.head_first});
  const std::uint64_t end =
      std::min({std::uint64_t{head_first} + heads, std::uint64_t{from.head_first} + from.heads,
                std::uint64_t{to.head_first} + to.heads});
  Template out{from, to, static_cast<std::uint32_t>(first), 0, false, false};
  // end - first fits: it is at most `heads`.
  out.heads = end > first ? static_cast<std::uint32_t>(end - first) : 0;
  out.heads_joined = heads_together(from, out.heads) && heads_together(to, out.heads);
  out.tokens_joined = out.heads_joined && tokens_together(from, out.heads) && tokens_together(to, out.heads);
  return out;
}

Result<std::vector<Segment>> instantiate(const Template& plan, TokenRange tokens,
                                         std::span<const std::uint32_t> from_pages,
                                         std::span<const std::uint32_t> to_pages) {
  if (tokens.first + tokens.count < tokens.first) {
    return refused(Code::kUsage, "token range " + number(tokens.first) + " + " + number(tokens.count) +
                                     " ends behind 2^64");
  }
  for (std::string why : {problem_of("sender's", plan.from, tokens, from_pages),
                          problem_of("receiver's", plan.to, tokens, to_pages)}) {
    if (!why.empty()) {
      return refused(Code::kUsage, std::move(why));
    }
  }
  std::vector<Segment> out;
  const std::uint64_t end = plan.heads == 0 ? tokens.first : tokens.first + tokens.count;
  for (std::uint64_t t = tokens.first; t < end;) {
    const std::uint64_t a = t % plan.from.page_tokens;
    const std::uint64_t b = t % plan.to.page_tokens;
    const std::uint64_t count = std::min({end - t, plan.from.page_tokens - a, plan.to.page_tokens - b});
    add_span(plan, count, place(plan.from, from_pages[t / plan.from.page_tokens], a, plan.head_first),
             place(plan.to, to_pages[t / plan.to.page_tokens], b, plan.head_first), out);
    t += count;
  }
  return out;
}

}  // namespace kvferry::planner
