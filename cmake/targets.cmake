# Libraries and programs are made from folders: drop a .cc into src/NAME/ and it belongs to kvferry_NAME.
# A folder without a .cc gives an interface library, so that an unfinished tree still configures.
#
# Wings (control, transport, ...) may include the headers of core and wire but do not link them: the assembly that
# uses a wing (runtime, sim) names the core and the wire it wants, production or mutant, behind the wings.

function(kvferry_sources_of folder out)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${folder}/*.cc")
  set(${out} "${sources}" PARENT_SCOPE)
endfunction()

function(kvferry_make_library target sources)
  if(sources)
    add_library(${target} STATIC ${sources})
    set(scope PUBLIC)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${target} ${scope} "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
  target_compile_definitions(${target} ${scope} KVFERRY_VERSION="${PROJECT_VERSION}")
  target_link_libraries(${target} ${scope} ${ARGN})
endfunction()

# kvferry_add_library(NAME PUBLIC library...): kvferry_NAME from src/NAME/**.cc
function(kvferry_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "PUBLIC")
  kvferry_sources_of(${name} sources)
  kvferry_make_library(kvferry_${name} "${sources}" ${arg_PUBLIC})
  set_property(GLOBAL APPEND PROPERTY KVFERRY_LIBRARIES kvferry_${name})
endfunction()

# kvferry_add_mutant_library(NAME PUBLIC library...): kvferry_NAME_mutants, the same sources with KVFERRY_MUTANTS=1.
# Every object that sees the switches also carries the symbol kvferry_mutant_marker: tools/no_mutants.py looks for it.
function(kvferry_add_mutant_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "PUBLIC")
  kvferry_sources_of(${name} sources)
  kvferry_make_library(kvferry_${name}_mutants "${sources}" ${arg_PUBLIC})
  set(scope INTERFACE)
  if(sources)
    set(scope PUBLIC)
  endif()
  target_compile_definitions(kvferry_${name}_mutants ${scope} KVFERRY_MUTANTS=1)
  target_compile_options(kvferry_${name}_mutants ${scope} "SHELL:-include ${PROJECT_SOURCE_DIR}/cmake/mutant_marker.h")
  if(name STREQUAL "wire")
    kvferry_use_schema(kvferry_wire_mutants ${scope})
  endif()
endfunction()

# kvferry_add_program(NAME FOLDER PUBLIC library...): everything in src/FOLDER but main.cc is the library
# kvferry_FOLDER, so that tests can link it; main.cc makes the program, which lands at the top of the build tree.
function(kvferry_add_program name folder)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "PUBLIC")
  kvferry_sources_of(${folder} sources)
  set(main "${PROJECT_SOURCE_DIR}/src/${folder}/main.cc")
  list(REMOVE_ITEM sources "${main}")
  kvferry_make_library(kvferry_${folder} "${sources}" ${arg_PUBLIC})
  file(GLOB found CONFIGURE_DEPENDS "${main}")
  if(NOT found)
    message(NOTICE "kvferry: src/${folder}/main.cc does not exist, so there is no program '${name}' yet")
    return()
  endif()
  add_executable(${name} "${main}")
  target_link_libraries(${name} PRIVATE kvferry_${folder})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
endfunction()

# src/wire/kvferry.fbs -> generated/wire/kvferry_generated.h in the build tree; include it as
# "wire/kvferry_generated.h". It is a system header: warnings in generated code are not ours.
function(kvferry_generate_schema)
  set(schema "${PROJECT_SOURCE_DIR}/src/wire/kvferry.fbs")
  file(GLOB found CONFIGURE_DEPENDS "${schema}")
  if(NOT found)
    return()
  endif()
  find_program(KVFERRY_FLATC flatc REQUIRED)
  set(folder "${PROJECT_BINARY_DIR}/generated/wire")
  add_custom_command(
    OUTPUT "${folder}/kvferry_generated.h"
    COMMAND "${KVFERRY_FLATC}" --cpp --cpp-std c++17 --scoped-enums -o "${folder}" "${schema}"
    DEPENDS "${schema}"
    COMMENT "flatc kvferry.fbs"
    VERBATIM)
  add_custom_target(kvferry_schema DEPENDS "${folder}/kvferry_generated.h")
  get_target_property(type kvferry_wire TYPE)
  set(scope PUBLIC)
  if(type STREQUAL "INTERFACE_LIBRARY")
    set(scope INTERFACE)
  endif()
  kvferry_use_schema(kvferry_wire ${scope})
endfunction()

function(kvferry_use_schema target scope)
  if(TARGET kvferry_schema)
    add_dependencies(${target} kvferry_schema)
    target_include_directories(${target} SYSTEM ${scope}
      "${PROJECT_BINARY_DIR}/generated" "${PROJECT_BINARY_DIR}/generated/wire")
  endif()
endfunction()
