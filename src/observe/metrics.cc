#include "observe/metrics.h"

#include <array>

namespace kvferry::observe {
namespace {

struct Metric {
  const char* name;
  std::uint64_t Counters::* value;
  bool gauge;
  const char* help;
};

constexpr std::array kMetrics = {
    Metric{"rooms_opened", &Counters::rooms_opened, false, "Rooms opened."},
    Metric{"rooms_succeeded", &Counters::rooms_succeeded, false, "Rooms that ended in Success."},
    Metric{"rooms_failed", &Counters::rooms_failed, false, "Rooms that ended in Failed."},
    Metric{"rooms_live", &Counters::rooms_live, true, "Rooms that are not terminal."},
    Metric{"bytes_sent", &Counters::bytes_sent, false, "Payload bytes sent."},
    Metric{"bytes_received", &Counters::bytes_received, false, "Payload bytes landed."},
    Metric{"messages_sent", &Counters::messages_sent, false, "Control messages sent."},
    Metric{"messages_received", &Counters::messages_received, false, "Control messages taken."},
    Metric{"frames_bad", &Counters::frames_bad, false, "Frames that could not be read."},
    Metric{"refused_from_peer", &Counters::refused_from_peer, false, "Messages that a rule forbids."},
    Metric{"stale_answered", &Counters::stale_answered, false,
           "Messages about something forgotten, answered."},
    Metric{"debts_resent", &Counters::debts_resent, false, "Messages sent again."},
    Metric{"debts", &Counters::debts, true, "Messages that wait for their answer."},
    Metric{"parked", &Counters::parked, true, "Grants for rooms that are not open yet."},
    Metric{"pages_lent", &Counters::pages_lent, false, "Pages lent."},
    Metric{"pages_returned", &Counters::pages_returned, false, "Pages returned."},
    Metric{"pages_quarantined", &Counters::pages_quarantined, true, "Pages that cannot be proven quiet."},
    Metric{"legs_lost", &Counters::legs_lost, true, "Legs that cannot be proven quiet."},
    Metric{"timeouts", &Counters::timeouts, false, "Deadlines that ran out."},
    Metric{"gaps", &Counters::gaps, false, "Pauses of this process above the gap limit."},
    Metric{"peers_lost", &Counters::peers_lost, false, "Lives of other processes that ended."},
    Metric{"peers", &Counters::peers, true, "Live processes known."},
    Metric{"links", &Counters::links, true, "Control links."},
    Metric{"ops_posted", &Counters::ops_posted, false, "Operations posted to movers."},
    Metric{"ops_in_flight", &Counters::ops_in_flight, true, "Operations posted and not yet quiesced."},
    Metric{"commands_refused", &Counters::commands_refused, false, "Commands refused with a typed error."},
};
// A counter that is added to Counters and not here makes this fail.
static_assert(sizeof(Counters) == kMetrics.size() * sizeof(std::uint64_t));

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::string metrics_text(const Counters& counters, std::string_view manager) {
  const std::string label = "{manager=\"" + escaped(manager) + "\"} ";
  std::string out;
  for (const Metric& m : kMetrics) {
    const std::string name = std::string("kvferry_") + m.name + (m.gauge ? "" : "_total");
    out += "# HELP " + name + " " + m.help + "\n# TYPE " + name + (m.gauge ? " gauge\n" : " counter\n");
    out += name + label + std::to_string(counters.*m.value) + "\n";
  }
  return out;
}

}  // namespace kvferry::observe
