// Every check of src/conformance, stamped for every mover of this build. A missing capability is a visible
// skip.
#include <gtest/gtest.h>

#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "base/sanitized.h"
#include "conformance/checks.h"
#include "transport/all.h"

namespace kvferry::conformance {
namespace {

constexpr std::uint64_t kTimeFactor = kSanitized ? 10 : 1;

HarnessSpec harness(std::string label, std::string mover, std::string bind, HarnessSpec::Far far) {
  HarnessSpec spec;
  spec.label = std::move(label);
  spec.maker.mover = std::move(mover);
  spec.maker.bind = std::move(bind);
  spec.far = far;
  spec.time_factor = kTimeFactor;
  if (far == HarnessSpec::Far::kChild) {
    spec.child_command = {std::filesystem::read_symlink("/proc/self/exe").string(), "--party",
                          spec.maker.mover, spec.maker.bind};
    if (spec.maker.bind.empty()) spec.child_command.back() = "127.0.0.1";
  }
  return spec;
}

std::vector<HarnessSpec> harnesses() {
  using Far = HarnessSpec::Far;
  return {
      harness("loopback_push", "loopback-push", "", Far::kSameProcess),
      harness("loopback_pull", "loopback-pull", "", Far::kSameProcess),
      harness("loopback_landed", "loopback-landed", "", Far::kSameProcess),
      harness("tcp_one_process", "tcp", "127.0.0.1", Far::kSameProcess),
      harness("tcp_two_processes", "tcp", "127.0.0.1", Far::kChild),
      harness("tcp_two_processes_v6", "tcp", "::1", Far::kChild),
#ifdef KVFERRY_HAS_SHM
      harness("shm_one_process", "shm", "", Far::kSameProcess),
      harness("shm_two_processes", "shm", "", Far::kChild),
      harness("shm_pool_one_process", "shm-pool", "", Far::kSameProcess),
      harness("shm_pool_two_processes", "shm-pool", "", Far::kChild),
#endif
  };
}

struct Case {
  HarnessSpec spec;
  Check check;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.spec.label << ": " << c.check.promise; }

std::vector<Case> cases() {
  std::vector<Case> list;
  for (const HarnessSpec& spec : harnesses()) {
    for (const Check& check : checks()) list.push_back({spec, check});
  }
  return list;
}

class Conformance : public testing::TestWithParam<Case> {};

TEST_P(Conformance, Holds) {
  const Verdict verdict = GetParam().check.run(GetParam().spec);
  if (verdict.kind == Verdict::Kind::kSkipped) GTEST_SKIP() << "missing capability: " << verdict.text;
  EXPECT_EQ(verdict.kind, Verdict::Kind::kHeld) << GetParam().check.promise << "\n" << verdict.text;
}

INSTANTIATE_TEST_SUITE_P(Movers, Conformance, testing::ValuesIn(cases()),
                         [](const testing::TestParamInfo<Case>& param) {
                           return param.param.spec.label + "_" + param.param.check.name;
                         });

}  // namespace
}  // namespace kvferry::conformance
