// docs/protocol.md is normative: its generated blocks must equal what the tables in the code say.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "core/leg_table.h"
#include "core/message_table.h"

namespace kvferry::core {
namespace {

std::string document() {
  std::ifstream in(std::string(KVFERRY_TESTS_DIR) + "/../docs/protocol.md");
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}

std::string block(const std::string& text, const std::string& name) {
  const std::string open = "<!-- generated: " + name + " -->\n", close = "<!-- end -->";
  const auto a = text.find(open);
  if (a == std::string::npos) return "no block named " + name;
  const auto b = text.find(close, a);
  return text.substr(a + open.size(), b - a - open.size());
}

std::string leg_table() {
  std::string s = "| state |";
  for (const auto* e : kLegEventNames) s += std::string(" ") + e + " |";
  s += "\n|---|---|---|---|---|---|---|\n";
  for (std::size_t st = 0; st < kLegStates; ++st) {
    s += std::string("| **") + kLegStateNames[st] + "** |";
    for (std::size_t e = 0; e < kLegEvents; ++e) {
      const LegRow& row = kLegTable[st][e];
      const std::string next = kLegStateNames[static_cast<std::size_t>(row.next)];
      s += row.cell == Cell::kMove ? " " + next + " |" : row.cell == Cell::kIgnore ? " - |" : " (never) |";
    }
    s += "\n";
  }
  return s;
}

std::string leg_diagram() {
  std::string s = "```mermaid\nstateDiagram-v2\n  [*] --> Idle\n";
  for (std::size_t st = 0; st < kLegStates; ++st) {
    for (std::size_t e = 0; e < kLegEvents; ++e) {
      const LegRow& row = kLegTable[st][e];
      if (row.cell != Cell::kMove) continue;
      s += std::string("  ") + kLegStateNames[st] + " --> " +
           kLegStateNames[static_cast<std::size_t>(row.next)] + " : " + kLegEventNames[e] + "\n";
    }
  }
  return s + "  Sealed --> [*]\n  Quiet --> [*]\n```\n";
}

std::string message_table() {
  std::string s =
      "| message | said by | key | answered by | said again | bound |\n|---|---|---|---|---|---|\n";
  for (const auto& m : kMessageTable) {
    const char* again = m.again == Again::kNever       ? "never"
                        : m.again == Again::kDebt      ? "until answered (debt)"
                        : m.again == Again::kHandshake ? "until both know"
                                                       : "each heartbeat";
    s += std::string("| ") + m.name + " | " + m.sender + " | " + m.key + " | " + m.answer + " | " + again +
         " | " + m.bound + " |\n";
  }
  return s;
}

TEST(ProtocolDocument, LegTableIsTheCodes) { EXPECT_EQ(block(document(), "leg table"), leg_table()); }
TEST(ProtocolDocument, LegDiagramIsTheCodes) { EXPECT_EQ(block(document(), "leg diagram"), leg_diagram()); }
TEST(ProtocolDocument, MessageTableIsTheCodes) { EXPECT_EQ(block(document(), "messages"), message_table()); }

TEST(ProtocolDocument, NamesAreTheWires) {
  const auto same = [](std::size_t k, const wire::Body& body) {
    EXPECT_STREQ(kMessageTable[k].name, wire::name_of(body));
    EXPECT_EQ(body.index(), k);
  };
  same(0, wire::Hello{});
  same(2, wire::Grant{});
  same(6, wire::Done{});
  same(8, wire::Offer{});
  same(10, wire::Ack{});
  same(14, wire::Ping{});
  same(17, wire::Resend{});
}

}  // namespace
}  // namespace kvferry::core
