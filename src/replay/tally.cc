#include "replay/tally.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace kvferry::replay {
namespace {

double highest(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::ranges::max_element(values);
}

double rounded(double value) { return std::round(value * 1000) / 1000; }

nlohmann::ordered_json quantiles_json(const std::vector<double>& values) {
  const Quantiles q = quantiles(values);
  nlohmann::ordered_json json;
  json["p50"] = rounded(q.p50);
  json["p99"] = rounded(q.p99);
  return json;
}

double rate(const Tally& t) {
  return t.seconds > 0 ? static_cast<double>(t.bytes_moved) / 1e9 / t.seconds : 0;
}

void add(std::vector<std::string>& broken, std::uint64_t count, const char* what) {
  if (count > 0) broken.push_back(fmt::format("{}: {}", what, count));
}

}  // namespace

Quantiles quantiles(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const auto rank = [&](double share) {
    const double position = std::ceil(share * static_cast<double>(values.size()));
    return values[static_cast<std::size_t>(std::max(position, 1.0)) - 1];
  };
  return {rank(0.5), rank(0.99)};
}

std::vector<std::string> broken_promises(const Tally& t) {
  std::vector<std::string> broken;
  add(broken, t.bytes_wrong, "bytes that differ from the oracle");
  add(broken, t.manifests_wrong, "manifests that differ from what was written");
  add(broken, t.bytes_unaccounted, "rooms that succeeded with another size than was granted");
  add(broken, t.stranger_writes, "bytes of free or held pages that somebody wrote to");
  add(broken, t.hung, "rooms without an end");
  add(broken, t.crashes, "processes that ended though nobody told them to");
  add(broken, t.unexplained, "rooms that failed without abort, kill or refusal");
  add(broken, t.unreasoned, "rooms that failed without a reason");
  add(broken, t.disagreements, "rooms whose sides ended differently");
  if (t.succeeded + t.failed != t.rooms) {
    broken.push_back(
        fmt::format("{} succeeded + {} failed are not {} rooms", t.succeeded, t.failed, t.rooms));
  }
  if (t.pages_lent != t.pages_returned + t.pages_quarantined + t.pages_lost) {
    broken.push_back(
        fmt::format("{} pages were lent, but {} returned + {} quarantined + {} lost with a killed process",
                    t.pages_lent, t.pages_returned, t.pages_quarantined, t.pages_lost));
  }
  if (t.bytes_verified < t.bytes_moved) {
    broken.push_back(fmt::format("{} bytes moved, but only {} verified", t.bytes_moved, t.bytes_verified));
  }
  if (!t.note.empty()) broken.push_back(t.note);
  return broken;
}

std::string to_json(const Tally& t) {
  nlohmann::ordered_json json;
  json["rooms"] = t.rooms;
  json["attempts"] = t.attempts;
  json["succeeded"] = t.succeeded;
  json["failed"] = t.failed;
  json["failures"] = nlohmann::ordered_json::object();
  for (const auto& [cause, count] : t.failures) json["failures"][cause] = count;
  json["hung"] = t.hung;
  json["rooms_live_max"] = t.rooms_live_max;
  json["page_waits"] = t.page_waits;
  json["bytes_moved"] = t.bytes_moved;
  json["prefix_hit_bytes"] = t.prefix_hit_bytes;
  json["bytes_verified"] = t.bytes_verified;
  json["bytes_wrong"] = t.bytes_wrong;
  json["manifests_wrong"] = t.manifests_wrong;
  json["bytes_unaccounted"] = t.bytes_unaccounted;
  json["stranger_writes"] = t.stranger_writes;
  json["pages_lent"] = t.pages_lent;
  json["pages_returned"] = t.pages_returned;
  json["pages_quarantined"] = t.pages_quarantined;
  json["pages_lost_with_process"] = t.pages_lost;
  json["kills"] = t.kills;
  json["restarts"] = t.restarts;
  json["retries"] = t.retries;
  json["crashes"] = t.crashes;
  json["unexplained"] = t.unexplained;
  json["unreasoned"] = t.unreasoned;
  json["disagreements"] = t.disagreements;
  json["calls_refused"] = t.calls_refused;
  json["chunks"] = t.chunks;
  json["prompts_cut"] = t.prompts_cut;
  json["kill_to_reason_ms_max"] = rounded(highest(t.kill_to_reason_ms));
  json["kill_to_failed_ms_max"] = rounded(highest(t.kill_to_failed_ms));
  json["kill_rooms_measured"] = t.kill_to_failed_ms.size();
  json["t0_ms"] = quantiles_json(t.t0_ms);
  json["transfer_ms"] = quantiles_json(t.transfer_ms);
  json["gb_per_s"] = rounded(rate(t));
  json["seconds"] = rounded(t.seconds);
  json["startup_seconds"] = rounded(t.startup_seconds);
  json["broken"] = broken_promises(t);
  json["promises_kept"] = broken_promises(t).empty();
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string to_text(const Tally& t) {
  const Quantiles t0 = quantiles(t.t0_ms), transfer = quantiles(t.transfer_ms);
  std::string text;
  const auto row = [&](const char* name, const std::string& value) {
    text += fmt::format("  {:<22}{}\n", name, value);
  };
  row("rooms", fmt::format("{}: {} succeeded, {} failed, {} hung; {} attempts, {} live at the peak", t.rooms,
                           t.succeeded, t.failed, t.hung, t.attempts, t.rooms_live_max));
  for (const auto& [cause, count] : t.failures) row("", fmt::format("{} x {}", count, cause));
  row("bytes", fmt::format("{} moved in {} chunks, {} verified, {} wrong; {} not sent, decode held them",
                           t.bytes_moved, t.chunks, t.bytes_verified, t.bytes_wrong, t.prefix_hit_bytes));
  row("stranger writes", fmt::format("{}", t.stranger_writes));
  row("pages", fmt::format("{} lent = {} returned + {} quarantined + {} lost with a killed process; {} waits",
                           t.pages_lent, t.pages_returned, t.pages_quarantined, t.pages_lost, t.page_waits));
  row("kills", fmt::format("{}, {} restarts, {} rooms tried again", t.kills, t.restarts, t.retries));
  if (!t.kill_to_failed_ms.empty()) {
    row("after a kill",
        fmt::format("reason after {:.1f} ms at most, Failed after {:.1f} ms at most ({} rooms)",
                    highest(t.kill_to_reason_ms), highest(t.kill_to_failed_ms), t.kill_to_failed_ms.size()));
  }
  row("last chunk to Success", fmt::format("p50 {:.2f} ms, p99 {:.2f} ms", t0.p50, t0.p99));
  row("grant to Success", fmt::format("p50 {:.2f} ms, p99 {:.2f} ms", transfer.p50, transfer.p99));
  row("rate",
      fmt::format("{:.2f} GB/s over {:.1f} s (start-up {:.1f} s)", rate(t), t.seconds, t.startup_seconds));
  const std::vector<std::string> broken = broken_promises(t);
  row("promises", broken.empty() ? "kept" : "BROKEN");
  for (const std::string& line : broken) row("", line);
  return text;
}

}  // namespace kvferry::replay
