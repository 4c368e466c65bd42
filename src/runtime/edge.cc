#include "runtime/edge.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/endpoint.h"
#include "core/plan.h"

namespace kvferry::runtime {
namespace {

tl::unexpected<Error> usage(std::string what, std::string why) {
  return fail(Code::kUsage, Who::kConfig, Next::kAfterFix, std::move(what), std::move(why));
}

std::uint64_t count_of(const PageRuns& runs) {
  std::uint64_t sum = 0;
  for (const PageRun& run : runs) sum += run.count;
  return sum;
}

// Every index is one of the layout's, and none comes twice.
Result<> check_runs(const PageRuns& runs, std::uint32_t items, const std::string& what) {
  for (const PageRun& run : runs) {
    if (run.count == 0)
      return usage(what, fmt::format("the page run at index {} is empty; leave it out", run.first));
    const std::uint64_t end = std::uint64_t{run.first} + run.count;
    if (end > items) {
      return usage(what, fmt::format("page index {} is outside the pool of {} pages; use 0 to {}", end - 1,
                                     items, items == 0 ? 0 : items - 1));
    }
  }
  PageRuns sorted = runs;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    const std::uint64_t end = std::uint64_t{sorted[i - 1].first} + sorted[i - 1].count;
    if (sorted[i].first < end) {
      return usage(what, fmt::format("page index {} is named twice; name each page once", sorted[i].first));
    }
  }
  return {};
}

Result<> check_pages(const PageRuns& runs, std::uint64_t tokens, const Layout& layout, const Limits& limits,
                     const std::string& what) {
  const std::uint64_t most = std::uint64_t{limits.page_runs_per_part} * limits.grant_parts;
  if (runs.size() > most) {
    return fail(
        Code::kExhausted, Who::kConfig, Next::kAfterFix, what,
        fmt::format("{} page runs are more than the limit of {} (page_runs_per_part {} x grant_parts {})",
                    runs.size(), most, limits.page_runs_per_part, limits.grant_parts));
  }
  const std::uint64_t pages = count_of(runs);
  const std::uint64_t needed = (tokens + layout.page_tokens - 1) / layout.page_tokens;
  if (pages != needed) {
    return usage(what, fmt::format("{} tokens need {} pages of {} tokens, but {} pages were named", tokens,
                                   needed, layout.page_tokens, pages));
  }
  return check_runs(runs, layout.items(Space::kPages), what);
}

Result<> check_slots(std::uint32_t aux_slot, const std::vector<std::uint32_t>& states, const Layout& layout,
                     const std::string& what) {
  if (const std::uint32_t items = layout.items(Space::kAux); aux_slot != kNoSlot && aux_slot >= items) {
    return usage(what, fmt::format("aux slot {} is outside the {} aux slots of the layout", aux_slot, items));
  }
  const std::uint32_t items = layout.items(Space::kState);
  for (const std::uint32_t slot : states) {
    if (slot >= items) {
      return usage(what,
                   fmt::format("state slot {} is outside the {} state slots of the layout", slot, items));
    }
  }
  if (states.size() > items) {
    return usage(what, fmt::format("{} state slots were named, the layout has {}", states.size(), items));
  }
  return {};
}

Result<> wrong_role(const Slot& slot, const char* call, Role wanted) {
  return fail(
      Code::kRefused, Who::kConfig, Next::kAfterFix, subject(slot),
      fmt::format("{} belongs to a {}, this handle is a {}", call, name_of(wanted), name_of(slot.role)));
}

}  // namespace

std::string subject(const Slot& slot) {
  return fmt::format("room {} ({})", slot.room.value, name_of(slot.role));
}

Result<> check_options(const ManagerOptions& options, const Parts& parts) {
  const std::string what = fmt::format("manager '{}'", options.name);
  if (parts.clock == nullptr) return usage(what, "Parts::clock is empty; hand in a SystemClock");
  if (parts.channel == nullptr) return usage(what, "Parts::channel is empty; hand in a control channel");
  for (std::size_t i = 0; i < parts.transports.size(); ++i) {
    if (parts.transports[i] == nullptr) return usage(what, fmt::format("Parts::transports[{}] is empty", i));
  }
  if (options.limits.rooms == 0) return usage(what, "limits.rooms is 0; at least 1 is needed");
  if (options.limits.commands < 2)
    return usage(what, "limits.commands is below 2; opening a room takes two entries");
  if (options.layout.components.empty() && parts.transports.empty()) return {};  // a manager that only renews
  std::vector<std::uint64_t> bytes;
  bytes.reserve(options.regions.size());
  for (const RegionView& region : options.regions) bytes.push_back(region.length);
  return core::check_layout(options.layout, bytes);
}

Result<> check_open(const OpenSpec& spec, const Limits& limits) {
  const std::string what = fmt::format("room {} ({})", spec.room.value, name_of(spec.role));
  if (spec.role == Role::kSender) {
    if (spec.senders.empty()) return {};
    return usage(
        what, fmt::format("a sender waits to be dialled, but {} sender endpoints were named; leave them out",
                          spec.senders.size()));
  }
  if (spec.senders.empty())
    return usage(what, "a receiver needs at least one sender endpoint (\"host:port\")");
  if (spec.senders.size() > limits.legs_per_room) {
    return fail(Code::kExhausted, Who::kConfig, Next::kAfterFix, what,
                fmt::format("{} senders are more than limits.legs_per_room = {}", spec.senders.size(),
                            limits.legs_per_room));
  }
  if (spec.legs == 0 || spec.leg >= spec.legs || spec.legs > limits.legs_per_room) {
    return usage(what,
                 fmt::format("leg {} of {} legs: the leg must be below the number of legs, which is 1 to {}",
                             spec.leg, spec.legs, limits.legs_per_room));
  }
  for (std::size_t i = 0; i < spec.senders.size(); ++i) {
    const auto parsed = parse_host_port(spec.senders[i], "sender endpoint");
    if (!parsed) return tl::unexpected(parsed.error());
    if (parsed->port == 0 || is_any_host(parsed->host)) {
      return usage(what, fmt::format("sender endpoint '{}' cannot be dialled; name a host and a port",
                                     spec.senders[i]));
    }
    if (std::find(spec.senders.begin(), spec.senders.begin() + static_cast<std::ptrdiff_t>(i),
                  spec.senders[i]) != spec.senders.begin() + static_cast<std::ptrdiff_t>(i)) {
      return usage(what, fmt::format("sender endpoint '{}' is named twice", spec.senders[i]));
    }
  }
  return {};
}

Result<> check_grant(const GrantSpec& spec, const Slot& slot, const Layout& layout, const Limits& limits) {
  if (slot.role != Role::kReceiver) return wrong_role(slot, "grant", Role::kReceiver);
  const std::string what = subject(slot) + " grant";
  if (slot.granted) {
    return fail(Code::kRefused, Who::kConfig, Next::kNever, what,
                "pages were lent already; grant is called once a room");
  }
  if (layout.page_tokens == 0) return usage(what, "the layout has page_tokens 0");
  if (spec.prefix_tokens % layout.page_tokens != 0) {
    return usage(what, fmt::format("prefix_tokens {} is not a multiple of page_tokens {}", spec.prefix_tokens,
                                   layout.page_tokens));
  }
  if (std::uint64_t{spec.prefix_tokens} + spec.tokens > ~0U) {
    return usage(what, fmt::format("prefix_tokens {} + tokens {} is above the limit of {}",
                                   spec.prefix_tokens, spec.tokens, ~0U));
  }
  if (auto pages = check_pages(spec.pages, spec.tokens, layout, limits, what); !pages) return pages;
  return check_slots(spec.aux_slot, spec.state_slots, layout, what);
}

Result<> check_push(const ChunkSpec& spec, const Slot& slot, const Layout& layout, const Limits& limits) {
  if (slot.role != Role::kSender) return wrong_role(slot, "push", Role::kSender);
  const std::string what = fmt::format("{} chunk {}", subject(slot), slot.chunks);
  if (slot.last_pushed) {
    return fail(Code::kRefused, Who::kConfig, Next::kNever, what, "the last chunk was pushed already");
  }
  if (slot.chunks >= limits.chunks_per_room) {
    return fail(
        Code::kExhausted, Who::kConfig, Next::kAfterFix, what,
        fmt::format("more than limits.chunks_per_room = {}; push larger chunks", limits.chunks_per_room));
  }
  if (layout.page_tokens == 0) return usage(what, "the layout has page_tokens 0");
  if (!spec.last && spec.tokens % layout.page_tokens != 0) {
    return usage(
        what,
        fmt::format("{} tokens are not a multiple of page_tokens {}; only the last chunk may end inside "
                    "a page",
                    spec.tokens, layout.page_tokens));
  }
  if (slot.tokens + spec.tokens > ~0U) {
    return usage(
        what, fmt::format("{} tokens so far + {} is above the limit of {}", slot.tokens, spec.tokens, ~0U));
  }
  if (!spec.last && (spec.aux_slot != kNoSlot || !spec.state_slots.empty())) {
    return usage(what, "aux and state slots travel with the last chunk; this one is not the last");
  }
  if (auto pages = check_pages(spec.pages, spec.tokens, layout, limits, what); !pages) return pages;
  return check_slots(spec.aux_slot, spec.state_slots, layout, what);
}

std::string cut_text(std::string text, std::size_t most) {
  if (text.size() <= most) return text;
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;
  text.resize(end);
  return text;
}

}  // namespace kvferry::runtime
