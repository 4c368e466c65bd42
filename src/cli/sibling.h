// Commands that live in another program next to this one: `kvferry sim` is `kvferry-sim sim`, because the
// switches that remove a rule of the protocol must not be in the production binary. Thread rule: call from
// main.
#pragma once

namespace kvferry::cli {

// Replaces this process by `name` from this program's folder, with argv[1] and all behind it. Returns only
// when that fails: 3, with one line on stderr that names the missing program.
int exec_sibling(const char* name, char** argv);

}  // namespace kvferry::cli
