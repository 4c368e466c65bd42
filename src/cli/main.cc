// The command line: which command, which options, which exit status. Nothing else is done here.
// Exit status of every command: 0 promises kept, 1 one was broken, 2 usage, 3 environment.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "cli/bootstrap.h"
#include "cli/config.h"
#include "cli/sibling.h"
#if __has_include("cli/conformance.h")
#include "cli/conformance.h"
#endif
#if __has_include("cli/demo.h")
#include "cli/demo.h"
#endif
#if __has_include("cli/replay.h")
#include "cli/replay.h"
#endif
#if __has_include("cli/worker.h")
#include "cli/worker.h"
#endif

extern char** environ;

namespace kvferry::cli {
namespace {

using Action = std::function<int()>;  // set by the command that was chosen

constexpr const char* kJson = "the last line of stdout is one JSON object (docs/cli.md)";
constexpr const char* kConfigFile = "configuration file (TOML); default: KVFERRY_CONFIG, else none";
constexpr const char* kSet =
    "NAME=VALUE of any setting, over file and environment; `kvferry config` lists them";

Environment read_environment() {
  Environment out;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    const char* equals = std::strchr(*at, '=');
    if (equals != nullptr) out.emplace(std::string(*at, static_cast<std::size_t>(equals - *at)), equals + 1);
  }
  return out;
}

CLI::App* command(CLI::App& app, const char* name, const char* help, const char* example) {
  CLI::App* sub = app.add_subcommand(name, help);
  sub->footer(std::string("Example:\n  ") + example);
  return sub;
}

[[maybe_unused]] int not_built_in(const char* name) {
  std::fprintf(stderr, "kvferry: the command %s is not built in\n", name);
  return 3;
}

// --file, --set and the environment: what a command's managers run with.
void add_settings(CLI::App& sub, ConfigOptions& config, const Environment& environment) {
  sub.add_option("--file", config.file, kConfigFile);
  sub.add_option("--set", config.sets, kSet)->allow_extra_args(false);
  config.environment = environment;
}

void add_demo(CLI::App& app, Action& action, const Environment& environment) {
  CLI::App* sub =
      command(app, "demo", "One prefill and one decode process, killed and restarted; ends with a table",
              "kvferry demo --mover tcp --seed 7 --json");
#if __has_include("cli/demo.h")
  const auto o = std::make_shared<DemoOptions>();
  sub->add_option("--mover", o->mover, "shm or tcp")->capture_default_str();
  sub->add_option("--seed", o->seed, "room sizes and abort times are drawn from it")->capture_default_str();
  add_settings(*sub, o->config, environment);
  sub->add_flag("--json", o->json, kJson);
  sub->callback([o, &action] { action = [o] { return run_demo(*o); }; });
#else
  sub->callback([&action] { action = [] { return not_built_in("demo"); }; });
#endif
}

#if __has_include("cli/replay.h")
void add_replay_sizes(CLI::App& sub, ReplayOptions& o) {
  sub.add_option("--model", o.model,
                 "Llama-3.1-8B, DeepSeek-V3 or SmolLM2-135M: bytes and layers of a token");
  sub.add_option("--bytes-per-token", o.bytes_per_token, "instead of --model; default 64");
  sub.add_option("--page-tokens", o.page_tokens, "tokens a page")->capture_default_str();
  sub.add_option("--chunk-tokens", o.chunk_tokens, "tokens of one prefill chunk")->capture_default_str();
  sub.add_option("--pool-mib", o.pool_mib, "KV pool of each process in MiB; default: sized by the trace");
}
#endif

void add_replay(CLI::App& app, Action& action, const Environment& environment) {
  CLI::App* sub =
      command(app, "replay", "A request trace crossing between processes, every byte checked",
              "kvferry replay --trace mooncake_conversation_trace.jsonl --requests 500 --speed max \\\n"
              "      --bytes-per-token 64 --pool-mib 16 --mover tcp --kill prefill@room:100:restart --json");
#if __has_include("cli/replay.h")
  const auto o = std::make_shared<ReplayOptions>();
  sub->add_option("--trace", o->trace,
                  "Mooncake trace: JSON lines of timestamp, input_length, output_length, hash_ids");
  sub->add_option("--requests", o->requests, "only the first N requests");
  sub->add_option("--max-input-tokens", o->max_input_tokens, "longer prompts are cut");
  sub->add_option("--mover", o->mover, "shm or tcp")->capture_default_str();
  sub->add_option("--prefill", o->prefill, "prefill processes")->capture_default_str();
  sub->add_option("--decode", o->decode, "decode processes")->capture_default_str();
  add_replay_sizes(*sub, *o);
  sub->add_option("--decode-ms", o->decode_ms, "trace ms per output token that decode holds the pages")
      ->capture_default_str();
  sub->add_option("--speed", o->speed, "factor on the trace's clock, or max: jump to the next event")
      ->capture_default_str();
  sub->add_option("--abort-rate", o->abort_rate, "share of rooms that a side aborts, 0 to 1")
      ->capture_default_str();
  sub->add_option("--kill", o->kills,
                  "ROLE[.i]@SECONDS[:restart] or ROLE[.i]@room:N[:restart]; may be repeated")
      ->allow_extra_args(false);
  sub->add_option("--seed", o->seed, "free lists, aborts and contents are drawn from it")
      ->capture_default_str();
  add_settings(*sub, o->config, environment);
  sub->add_flag("--json", o->json, kJson);
  sub->callback([o, &action] { action = [o] { return run_replay(*o); }; });
#else
  sub->callback([&action] { action = [] { return not_built_in("replay"); }; });
#endif
}

void add_conformance(CLI::App& app, Action& action) {
  CLI::App* sub = command(app, "conformance", "Holds a mover to the numbered promises and reports",
                          "kvferry conformance --mover tcp --json");
#if __has_include("cli/conformance.h")
  const auto o = std::make_shared<ConformanceOptions>();
  sub->add_option("--mover", o->mover, "name of the mover; with --plugin only a label")
      ->capture_default_str();
  sub->add_option("--plugin", o->plugin, "LIB.so that exports kvferry_make_transport");
  sub->add_option("--plugin-options", o->plugin_options, "JSON handed to the plug-in as it is");
  sub->add_option("--peer", o->peer, "HOST:PORT of a `conformance --listen` on another host");
  sub->add_option("--listen", o->listen, "HOST:PORT: be the other side of one --peer run, then exit");
  sub->add_option("--bind", o->bind, "address that a networked mover listens on; default: loopback");
  sub->add_option("--only", o->only, "only checks whose name contains this text");
  sub->add_flag("--json", o->json, kJson);
  sub->add_option("--child", o->child, "")->group("");
  sub->callback([o, &action] { action = [o] { return run_conformance(*o); }; });
#else
  sub->callback([&action] { action = [] { return not_built_in("conformance"); }; });
#endif
}

void add_bootstrap(CLI::App& app, Action& action, const Environment& environment) {
  CLI::App* sub =
      command(app, "bootstrap", "The registry as an HTTP server: who serves which group, is it complete",
              "kvferry bootstrap --listen 0.0.0.0:8997");
  const auto o = std::make_shared<BootstrapOptions>();
  const auto listen = std::make_shared<std::string>();
  sub->add_option("--listen", *listen,
                  "HOST:PORT; port 0: any free one, it is printed; default: bootstrap.listen");
  add_settings(*sub, o->config, environment);
  sub->add_flag("--json", o->json, "a JSON line when it listens, and the counters as the last line");
  sub->callback([o, listen, sub, &action] {
    if (sub->count("--listen") > 0) o->config.flags.push_back({"bootstrap.listen", *listen, "--listen"});
    action = [o] { return run_bootstrap(*o); };
  });
}

void add_config(CLI::App& app, Action& action, const Environment& environment) {
  CLI::App* sub = command(app, "config", "Every setting, its value and where it came from",
                          "KVFERRY_DEADLINES_DRAIN=3s kvferry config --file kvferry.toml --json");
  const auto o = std::make_shared<ConfigOptions>();
  add_settings(*sub, *o, environment);
  sub->add_flag("--json", o->json, kJson);
  sub->callback([o, &action] { action = [o] { return run_config(*o); }; });
}

// Their arguments are not looked at here: see run().
void add_simulation(CLI::App& app) {
  command(app, "sim", "The whole cluster in virtual time with faults drawn per seed; runs kvferry-sim",
          "kvferry sim --seeds 1..1000 --json");
  command(app, "explore", "Every reachable state of a named shape, to closure; runs kvferry-sim",
          "kvferry explore --shape 1x1-placed --json");
}

int usage_error(const CLI::App& app, const std::string& text) {
  const std::string line = text.substr(0, text.find('\n'));
  std::string verb;
  for (const CLI::App* sub : app.get_subcommands()) verb = " " + sub->get_name();
  std::fprintf(stderr, "kvferry%s: %s; see kvferry%s --help\n", verb.c_str(), line.c_str(), verb.c_str());
  return 2;
}

// CLI11 would only say that a subcommand is missing.
bool unknown_command(const CLI::App& app, const std::string& verb, std::string& why) {
  if (verb.empty() || verb.front() == '-') return false;
  std::string all;
  for (const CLI::App* sub : app.get_subcommands(nullptr)) {
    if (sub->get_name() == verb) return false;
    all += (all.empty() ? "" : ", ") + sub->get_name();
  }
  why = "\"" + verb.substr(0, 64) + "\" is no command; the commands are " + all;
  return true;
}

std::string all_examples(const CLI::App& app) {
  std::string out = "Examples:\n";
  for (const CLI::App* sub : app.get_subcommands(nullptr)) {
    const std::string footer = sub->get_footer();
    out += footer.substr(footer.find('\n') + 1) + "\n";
  }
  return out + "\nExit status: 0 promises kept, 1 one was broken, 2 usage, 3 environment.";
}

int parse_and_run(int argc, char** argv) {
  CLI::App app{"kvferry moves KV cache between prefill and decode processes"};
  app.name("kvferry");
  app.set_version_flag("--version", std::string("kvferry ") + KVFERRY_VERSION);
  app.require_subcommand(1);
  const Environment environment = read_environment();
  Action action;
  add_demo(app, action, environment);
  add_replay(app, action, environment);
  add_simulation(app);
  add_conformance(app, action);
  add_bootstrap(app, action, environment);
  add_config(app, action, environment);
  app.footer(all_examples(app));
  std::string why;
  if (unknown_command(app, argc > 1 ? argv[1] : "", why)) return usage_error(app, why);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help, --version
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    return usage_error(app, e.what());
  }
  return action ? action() : usage_error(app, "nothing to do");
}

int run(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "";
  if (verb == "sim" || verb == "explore") return exec_sibling("kvferry-sim", argv);
#if __has_include("cli/worker.h")
  if (verb == kWorkerVerb) return run_worker(argc, argv);
#endif
  return parse_and_run(argc, argv);
}

}  // namespace
}  // namespace kvferry::cli

int main(int argc, char** argv) {
  try {
    return kvferry::cli::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "kvferry: %s\n", e.what());
    return 3;
  }
}
