// Included into every object that is compiled with KVFERRY_MUTANTS; tools/no_mutants.py looks for the symbol.
#pragma once

#ifndef KVFERRY_MUTANTS
#error "only for objects with mutant switches"
#endif

extern "C" {
[[gnu::used]] inline const char kvferry_mutant_marker = 1;
}
