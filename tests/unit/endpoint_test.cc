// "host:port" as text.
#include "base/endpoint.h"

#include <gtest/gtest.h>

namespace kvferry {
namespace {

TEST(Endpoint, ReadsWhatItPrints) {
  for (const char* text : {"10.0.0.5:8998", "[::1]:0", "node-7.rack:65535", "[fe80::1%eth0]:80"}) {
    const auto parsed = parse_host_port(text);
    ASSERT_TRUE(parsed) << text << ": " << parsed.error().line();
    EXPECT_EQ(print_host_port(parsed->host, parsed->port), text);
  }
  EXPECT_EQ(parse_host_port("*:80")->host, "");
  EXPECT_EQ(parse_host_port(":80")->host, "");
}

TEST(Endpoint, RefusalNamesTextReasonAndFix) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "empty"},
      {"node", "':PORT' is missing"},
      {"::1:80", "brackets"},
      {"[::1:80", "not closed"},
      {"[::1]80", "behind ']'"},
      {"[node]:80", "no IPv6"},
      {"a b:80", "character"},
      {"a:65536", "65535"},
      {"a:-1", "65535"},
      {"a:", "65535"},
      {"a:8x", "65535"},
      {std::string(300, 'a') + ":1", "253"},
  };
  for (const auto& [text, reason] : cases) {
    const auto parsed = parse_host_port(text, "bind");
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, Code::kUsage);
    EXPECT_EQ(parsed.error().what.rfind("bind \"", 0), 0U) << parsed.error().what;
    EXPECT_NE(parsed.error().why.find(reason), std::string::npos) << parsed.error().why;
    EXPECT_NE(parsed.error().why.find("write HOST:PORT"), std::string::npos);
  }
}

TEST(Endpoint, Loopback) {
  for (const char* yes : {"127.0.0.1:1", "127.8.8.8:1", "[::1]:1", "localhost:1", "[::ffff:127.0.0.1]:1"})
    EXPECT_TRUE(is_loopback(yes)) << yes;
  for (const char* no : {"10.0.0.1:1", "[::2]:1", "127.example.org:1", "node:1", "0.0.0.0:1", "junk"})
    EXPECT_FALSE(is_loopback(no)) << no;
}

}  // namespace
}  // namespace kvferry
