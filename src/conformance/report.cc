#include "conformance/report.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <ostream>

#include "kvferry/clock.h"

namespace kvferry::conformance {
namespace {

const char* text_of(Access access) { return access == Access::kRead ? "read" : "write"; }
const char* text_of(RevokeMode mode) {
  return mode == RevokeMode::kLenderStops ? "lender stops" : "mover drains";
}
const char* text_of(Visible visible) {
  static constexpr const char* kNames[] = {"local done", "remote landed", "remote notified",
                                           "receiver placed"};
  return kNames[static_cast<std::size_t>(visible)];
}
const char* text_of(FenceMode mode) {
  static constexpr const char* kNames[] = {"at once", "bounded", "none"};
  return kNames[static_cast<std::size_t>(mode)];
}

}  // namespace

const char* name_of(Verdict::Kind kind) noexcept {
  switch (kind) {
    case Verdict::Kind::kHeld: return "held";
    case Verdict::Kind::kBroken: return "BROKEN";
    case Verdict::Kind::kSkipped: return "skipped";
  }
  return "?";
}

std::size_t Report::count(Verdict::Kind kind) const {
  return static_cast<std::size_t>(std::count_if(
      outcomes.begin(), outcomes.end(), [&](const Outcome& each) { return each.verdict.kind == kind; }));
}

std::string describe(const Capabilities& c) {
  return std::string(text_of(c.access)) + ", visible: " + text_of(c.visible) +
         ", revoke: " + text_of(c.revoke) + ", fence: " + text_of(c.fence) +
         (c.same_host_only ? ", same host only" : "") + ", at most " + std::to_string(c.max_in_flight) +
         " operations in flight";
}

Report run_checks(const HarnessSpec& spec, const std::string& only, std::ostream* progress) {
  Report report;
  report.harness = spec.label;
  if (auto party = LocalParty::start(spec.maker); party) report.capabilities = (*party)->capabilities();
  SystemClock clock;
  for (const Check& check : checks()) {
    if (std::string(check.name).find(only) == std::string::npos) continue;
    const TimePoint start = clock.now();
    Outcome outcome{check, check.run(spec), 0};
    outcome.seconds = std::chrono::duration<double>(clock.now() - start).count();
    if (progress != nullptr) {
      *progress << name_of(outcome.verdict.kind) << "\t" << check.name << "\t" << check.promise << "\n";
      if (!outcome.verdict.text.empty()) *progress << "\t" << outcome.verdict.text << "\n";
      progress->flush();
    }
    report.outcomes.push_back(std::move(outcome));
  }
  return report;
}

std::string json_of(const std::vector<Report>& reports) {
  using nlohmann::json;
  json out;
  out["promises_kept"] =
      std::all_of(reports.begin(), reports.end(), [](const Report& r) { return r.held(); });
  out["harnesses"] = json::array();
  for (const Report& report : reports) {
    json harness;
    const Capabilities& c = report.capabilities;
    harness["harness"] = report.harness;
    harness["mover"] = c.name;
    harness["capabilities"] = {{"memory", c.memory},
                               {"access", text_of(c.access)},
                               {"visible", text_of(c.visible)},
                               {"revoke", text_of(c.revoke)},
                               {"fence", text_of(c.fence)},
                               {"same_host_only", c.same_host_only},
                               {"reposts", c.reposts},
                               {"max_in_flight", c.max_in_flight},
                               {"max_loans", c.max_loans}};
    harness["held"] = report.count(Verdict::Kind::kHeld);
    harness["broken"] = report.count(Verdict::Kind::kBroken);
    harness["skipped"] = report.count(Verdict::Kind::kSkipped);
    harness["checks"] = json::array();
    for (const Outcome& each : report.outcomes) {
      harness["checks"].push_back({{"name", each.check.name},
                                   {"promise", each.check.promise},
                                   {"verdict", name_of(each.verdict.kind)},
                                   {"text", each.verdict.text},
                                   {"seconds", each.seconds}});
    }
    out["harnesses"].push_back(std::move(harness));
  }
  // Texts of a mover that is not ours may hold anything: what is not UTF-8 is replaced, never thrown over.
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace kvferry::conformance
