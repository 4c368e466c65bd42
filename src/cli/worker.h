// The hidden subcommand behind demo and replay: one prefill or decode process. The parent re-executes this
// program with it; people have no use for it. Thread rule: call from main, once per process.
#pragma once

namespace kvferry::cli {

inline constexpr char kWorkerVerb[] = "replay-worker";  // argv[1] that main hands to run_worker

// argv is main's whole argv. Returns the exit status: 0 ended when told to, 2 bad arguments, 3 environment.
int run_worker(int argc, char** argv);

}  // namespace kvferry::cli
