#include "cli/worker.h"

#include <signal.h>
#include <sys/prctl.h>

#include <charconv>
#include <cstdio>
#include <string_view>
#include <utility>

#include "config/layers.h"
#include "replay/worker_main.h"

namespace kvferry::cli {
namespace {

template <class T>
bool whole(const char* text, T& value) {
  const std::string_view view(text);
  const auto [stop, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  return error == std::errc{} && stop == view.data() + view.size();
}

}  // namespace

int run_worker(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG,
        SIGKILL);  // the parent set it before it executed us; said again for a parent that did not
  replay::WorkerArgs args;
  const bool good =
      argc >= 5 && whole(argv[2], args.area_fd) && whole(argv[3], args.link_fd) && whole(argv[4], args.slot);
  if (!good) {
    std::fprintf(stderr, "kvferry %s: is started by `kvferry demo` and `kvferry replay`, not by people\n",
                 kWorkerVerb);
    return 2;
  }
  auto config = config::from_differing({argv + 5, argv + argc});
  if (!config) {
    std::fprintf(stderr, "kvferry %s: %s\n", kWorkerVerb, config.error().line().c_str());
    return 2;
  }
  args.config = std::move(*config);
  return replay::worker_main(args);
}

}  // namespace kvferry::cli
