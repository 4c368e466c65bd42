// The registry's HTTP interface under hostile requests. Lines: the input is cut at newlines into requests
// "METHOD TARGET BODY"; time goes on by the length of each. After every request the answer is JSON or metrics
// text, and the counters add up.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "bootstrap/answers.h"
#include "bootstrap/routes.h"

namespace {

using namespace kvferry;

void demand(bool ok) {
  if (!ok) std::abort();
}

std::string_view word(std::string_view& line) {
  const auto end = std::min(line.find(' '), line.size());
  const std::string_view out = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return out;
}

void check(bootstrap::Routes& routes, const bootstrap::HttpReply& reply, std::uint64_t asked) {
  const auto& c = routes.counters();
  demand(c.requests == asked);
  demand(c.requests ==
         c.ok + c.bad_request + c.not_found + c.bad_method + c.conflict + c.too_large + c.exhausted);
  const auto& r = routes.registry().counters();
  demand(routes.registry().entries() + r.removed + r.expired <= r.created + r.replaced);
  demand(routes.registry().group_count() <= routes.registry().entries());
  demand(routes.registry().entries() <= routes.registry().limits().entries);
  if (reply.content_type != std::string_view("application/json")) return;
  const auto json = nlohmann::json::parse(reply.body, nullptr, false);
  demand(json.is_object());
  demand((reply.status >= 300) == json.contains("error"));
  if (reply.status >= 300) demand(!json["error"]["message"].get<std::string>().empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  core::RegistryLimits limits;
  limits.groups = 3;
  limits.entries = 5;
  limits.ranks_per_group = 64;
  bootstrap::Routes routes(limits, Incarnation{1, 1});
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  TimePoint now{};
  std::uint64_t asked = 0;
  while (!rest.empty()) {
    const auto end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    now += std::chrono::milliseconds(line.size() * 10);
    const std::string_view method = word(line), target = word(line);
    const auto reply = routes.handle({method, target, line}, now);
    check(routes, reply, ++asked);
    bootstrap::read_put_answer(reply.status, reply.body);
    const auto group = bootstrap::read_group_answer(reply.status, line);  // hostile answers, for the client
    demand(group.ready || !group.missing.empty());
  }
  return 0;
}
