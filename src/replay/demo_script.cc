#include "replay/demo_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/prng.h"

namespace kvferry::replay {
namespace {

constexpr std::int64_t kActNs = 60'000'000'000;
constexpr std::array<std::uint32_t, 6> kSizes{1,    17,   512,
                                              2051, 4096, 6000};  // tokens; the fifth again as a prefix
constexpr std::uint32_t kAborted = 4096, kKilledPaused = 4096, kKilledStreaming = 6000, kAgain = 3000;
constexpr std::array<std::int32_t, 3> kMoments{Message::kAtOpen, 0, 50};
constexpr std::size_t kReasonShown = 100;

void add_prompt(Trace& trace, std::uint32_t tokens, Prng& prng) {
  TraceRequest request;
  request.line = static_cast<std::uint32_t>(trace.requests.size() + 1);
  request.input_tokens = tokens;
  request.first_hash = static_cast<std::uint32_t>(trace.hashes.size());
  request.hashes = (tokens + kBlockTokens - 1) / kBlockTokens;
  for (std::uint32_t i = 0; i < request.hashes; ++i) trace.hashes.push_back(prng.next() >> 1);
  trace.requests.push_back(request);
}

// A second prompt with the same beginning: its full blocks are those of the one before.
void add_follow_up(Trace& trace, std::uint32_t more, Prng& prng) {
  const TraceRequest before = trace.requests.back();
  add_prompt(trace, before.input_tokens + more, prng);
  const TraceRequest& added = trace.requests.back();
  std::copy_n(trace.hashes.begin() + before.first_hash, before.input_tokens / kBlockTokens,
              trace.hashes.begin() + added.first_hash);
}

std::string shown(const std::string& text) {
  return text.size() > kReasonShown ? text.substr(0, kReasonShown - 3) + "..." : text;
}

}  // namespace

Trace DemoScript::prompts(std::uint64_t seed) {
  Trace trace;
  Prng prng(mix64(seed ^ 0x64656d6fULL));
  for (const std::uint32_t size : kSizes) add_prompt(trace, size, prng);
  add_follow_up(trace, 700, prng);
  for (int side = 0; side < 2; ++side) {
    for (std::size_t i = 0; i < kMoments.size(); ++i) add_prompt(trace, kAborted, prng);
  }
  for (int side = 0; side < 2; ++side) {
    add_prompt(trace, kKilledPaused, prng);
    add_prompt(trace, kKilledStreaming, prng);
    add_prompt(trace, kAgain, prng);
  }
  return trace;
}

void DemoScript::play() {
  move_sizes();
  for (const Side side : {Side::kPrefill, Side::kDecode}) abort_from(side);
  for (const Side side : {Side::kPrefill, Side::kDecode}) {
    if (trouble_.empty()) kill(side);
    if (trouble_.empty())
      move_again(side == Side::kPrefill ? "the new prefill works" : "the new decode works");
  }
}

bool DemoScript::wait(const std::function<bool()>& until) {
  const std::int64_t begin = monotonic_ns();
  std::vector<Finished> finished;
  while (!until()) {
    if (!referee_.fatal().empty()) {
      trouble_ = referee_.fatal();
      return false;
    }
    if (monotonic_ns() - begin > kActNs) {
      trouble_ = fmt::format("{} rooms had not ended {} s later", referee_.live(), kActNs / 1'000'000'000);
      return false;
    }
    referee_.pump(1, finished);
  }
  return true;
}

bool DemoScript::ended(std::uint32_t first, std::uint32_t count) const {
  for (std::uint32_t i = first; i < first + count; ++i) {
    if (referee_.outcome(i) == Referee::Outcome::kNone) return false;
  }
  return true;
}

DemoRow DemoScript::row(std::string act, std::uint32_t first, std::uint32_t count) {
  DemoRow made;
  made.act = std::move(act);
  made.rooms = count;
  const Tally tally = referee_.tally();
  made.bytes = tally.bytes_moved - std::exchange(bytes_before_, tally.bytes_moved);
  made.attempts =
      static_cast<std::uint32_t>(tally.attempts - std::exchange(attempts_before_, tally.attempts));
  for (std::uint32_t i = first; i < first + count; ++i) {
    if (referee_.outcome(i) == Referee::Outcome::kSucceeded) ++made.succeeded;
    if (referee_.outcome(i) == Referee::Outcome::kFailed) {
      ++made.failed;
      made.seen = shown(referee_.reason(i));
    }
  }
  return made;
}

void DemoScript::finish(DemoRow row, std::uint32_t first, std::uint32_t count, bool all_succeed) {
  row.as_planned = trouble_.empty() && (all_succeed ? row.succeeded : row.failed) == count;
  for (std::uint32_t i = first; i < first + count; ++i) referee_.release(i);
  rows_.push_back(std::move(row));
}

// One after the other, so that the last one finds the blocks of the one before at decode.
void DemoScript::move_sizes() {
  const auto count = static_cast<std::uint32_t>(kSizes.size() + 1);
  const std::uint32_t first = std::exchange(next_, next_ + count);
  for (std::uint32_t i = first; i + 1 < first + count; ++i) referee_.submit(i);
  if (wait([&] { return ended(first, count - 1); })) {
    referee_.submit(first + count - 1);
    wait([&] { return ended(first, count); });
  }
  DemoRow made = row("rooms of 1 to 6700 tokens", first, count);
  made.seen = fmt::format("{} bytes not sent: decode held that prefix", referee_.tally().prefix_hit_bytes);
  finish(std::move(made), first, count, true);
}

// Before anything is known, at the grant, and in the middle of the transfer.
void DemoScript::abort_from(Side side) {
  const auto count = static_cast<std::uint32_t>(kMoments.size());
  const std::uint32_t first = std::exchange(next_, next_ + count);
  if (!trouble_.empty()) return;
  for (std::uint32_t i = 0; i < count; ++i) {
    Plan plan;
    plan.abort_side = side;
    plan.abort_percent = side == Side::kDecode && kMoments[i] > 0 ? kMoments[i] / 2 : kMoments[i];
    if (side == Side::kDecode) plan.pause_percent = 50;  // prefill is still computing when decode gives up
    referee_.submit(first + i, plan);
  }
  wait([&] { return ended(first, count); });
  finish(row(fmt::format("aborted by {}", name_of(side)), first, count), first, count, false);
}

// SIGKILL while one room is half done and another one is streaming; a new process takes the port; both rooms
// are tried again under their numbers.
void DemoScript::kill(Side side) {
  const std::uint32_t count = 2;
  const std::uint32_t first = std::exchange(next_, next_ + count);
  Plan half;
  half.pause_percent = 50;
  referee_.submit(first, half);
  referee_.submit(first + 1);
  const std::uint32_t slot = side == Side::kPrefill ? 0 : area_.config().prefill;
  const auto half_done = [&] { return area_.side(first, Side::kPrefill).tokens.load() * 2 >= kKilledPaused; };
  const std::size_t seen = referee_.tally().kill_to_failed_ms.size();
  if (wait(half_done)) {
    referee_.kill(slot, true);
    wait([&] { return ended(first, count); });
  }
  DemoRow made = row(fmt::format("{} killed and restarted", name_of(side)), first, count);
  const Tally tally = referee_.tally();
  double reason = 0, failed = 0;
  for (std::size_t i = seen; i < tally.kill_to_failed_ms.size(); ++i)
    failed = std::max(failed, tally.kill_to_failed_ms[i]);
  for (std::size_t i = seen; i < tally.kill_to_reason_ms.size(); ++i)
    reason = std::max(reason, tally.kill_to_reason_ms[i]);
  made.seen = fmt::format("survivor knew why after {:.1f} ms, Failed after {:.1f} ms", reason, failed);
  finish(std::move(made), first, count, true);
}

void DemoScript::move_again(const char* act) {
  const std::uint32_t first = std::exchange(next_, next_ + 1);
  referee_.submit(first);
  wait([&] { return ended(first, 1); });
  finish(row(act, first, 1), first, 1, true);
}

std::string to_table(const std::vector<DemoRow>& rows) {
  std::string text = fmt::format("{:<28}{:>6}{:>9}{:>4}{:>8}{:>12}  {}\n", "what", "rooms", "attempts", "ok",
                                 "failed", "MB moved", "seen");
  for (const DemoRow& row : rows) {
    text += fmt::format("{:<28}{:>6}{:>9}{:>4}{:>8}{:>12.2f}  {}{}\n", row.act, row.rooms, row.attempts,
                        row.succeeded, row.failed, static_cast<double>(row.bytes) / 1e6,
                        row.as_planned ? "" : "NOT AS PLANNED: ", row.seen);
  }
  return text;
}

std::string to_json(const Tally& tally, const std::vector<DemoRow>& rows) {
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(to_json(tally));
  for (const DemoRow& row : rows) {
    json["acts"].push_back({{"act", row.act},
                            {"rooms", row.rooms},
                            {"attempts", row.attempts},
                            {"succeeded", row.succeeded},
                            {"failed", row.failed},
                            {"bytes_moved", row.bytes},
                            {"seen", row.seen},
                            {"as_planned", row.as_planned}});
  }
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace kvferry::replay
