// `kvferry conformance`: holds a mover to the numbered promises of the Transport contract and reports.
// Thread rule: call from main, once per process.
#pragma once

#include <string>

namespace kvferry::cli {

struct ConformanceOptions {
  std::string mover = "tcp";  // --mover NAME; with --plugin only a label
  std::string plugin;         // --plugin LIB.so, exporting kvferry_make_transport
  std::string plugin_options; // --plugin-options JSON, handed to it as it is
  std::string peer;           // --peer HOST:PORT: the other side is a `--listen` there
  std::string listen;         // --listen HOST:PORT: be the other side for one --peer run, then exit
  std::string
      bind;  // --bind ADDRESS: what a networked mover listens on; empty: loopback (all with --peer/--listen)
  std::string only;  // --only TEXT: checks whose name contains it
  bool json = false;  // --json: one JSON object on stdout
  int child = -1;  // --child FD, hidden: the other process of a local run
};

// Returns the exit status: 0 every promise held (skips are listed), 1 one was broken, 2 usage, 3 environment.
int run_conformance(const ConformanceOptions&);

}  // namespace kvferry::cli
