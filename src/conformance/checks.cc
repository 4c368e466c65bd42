#include "conformance/checks.h"

namespace kvferry::conformance {

Verdict held() { return {}; }
Verdict broken(std::string what) { return {Verdict::Kind::kBroken, std::move(what)}; }
Verdict skipped(std::string capability) { return {Verdict::Kind::kSkipped, std::move(capability)}; }
Verdict verdict_of(const Finding& finding) { return finding ? broken(*finding) : held(); }

Verdict one_way(const HarnessSpec& spec, bool near_posts, bool bulk, Verdict (*body)(Session&)) {
  auto session = Session::connect(spec, near_posts, bulk);
  if (!session) return broken("no session: " + session.error().line());
  Verdict verdict = body(**session);
  if (!verdict.text.empty()) verdict.text += near_posts ? " [near posts]" : " [far posts]";
  return verdict;
}

Verdict both_ways(const HarnessSpec& spec, bool bulk, Verdict (*body)(Session&)) {
  Verdict verdict = one_way(spec, true, bulk, body);
  if (verdict.kind != Verdict::Kind::kHeld) return verdict;
  return one_way(spec, false, bulk, body);
}

const std::vector<Check>& checks() {
  static const std::vector<Check> all = [] {
    std::vector<Check> list;
    for (const auto& part : {operation_checks(), refusal_checks(), ending_checks(), process_checks()}) {
      list.insert(list.end(), part.begin(), part.end());
    }
    return list;
  }();
  return all;
}

}  // namespace kvferry::conformance
