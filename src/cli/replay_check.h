// Judges the flags of `kvferry replay`: one error that names flag, value, limit and fix. Pure; no thread
// rule.
#pragma once

#include "cli/replay.h"
#include "kvferry/error.h"
#include "replay/model.h"
#include "replay/replay_run.h"
#include "replay/trace.h"

namespace kvferry::cli {

struct CheckedReplay {
  replay::TraceLimits limits;
  replay::Model model;
  replay::ReplayPlan plan;
  std::uint32_t prefill = 1, decode = 1, page_tokens = 16, chunk_tokens = 2048;
  std::uint64_t pool_mib = 0;  // 0: sized by the trace
};

Result<CheckedReplay> check_replay(const ReplayOptions&);

}  // namespace kvferry::cli
