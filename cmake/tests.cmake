# Tests are made from folders: drop NAME_test.cc into tests/KIND/ (or a folder below) and it is in
# kvferry_KIND_tests. Each gtest case is one ctest case labelled KIND. A case whose name contains "Slow" is
# labelled KIND_slow instead, has a longer time limit, and is left out of `./run test`.
find_package(GTest REQUIRED)
find_package(rapidcheck REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
include(GoogleTest)

set(KVFERRY_TIME_FACTOR 1)
if(KVFERRY_SANITIZE)
  set(KVFERRY_TIME_FACTOR 5)
endif()
math(EXPR KVFERRY_TEST_SECONDS "60 * ${KVFERRY_TIME_FACTOR}")
math(EXPR KVFERRY_SLOW_SECONDS "600 * ${KVFERRY_TIME_FACTOR}")

add_custom_target(kvferry_tests)

function(kvferry_discover target label)
  gtest_discover_tests(${target} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 NO_PRETTY_VALUES
    TEST_PREFIX "${label}/" TEST_FILTER "-*Slow*"
    PROPERTIES LABELS "${label}" TIMEOUT ${KVFERRY_TEST_SECONDS})
  gtest_discover_tests(${target} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 NO_PRETTY_VALUES
    TEST_PREFIX "${label}/" TEST_FILTER "*Slow*"
    PROPERTIES LABELS "${label}_slow" TIMEOUT ${KVFERRY_SLOW_SECONDS})
endfunction()

# kvferry_add_tests(KIND LINK library... DEFINE definition...)
function(kvferry_add_tests kind)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LINK;DEFINE")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/${kind}/*_test.cc")
  file(GLOB_RECURSE helpers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/${kind}/*_support.cc")
  if(NOT sources)
    return()
  endif()
  set(target kvferry_${kind}_tests)
  add_executable(${target} ${sources} ${helpers})
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_compile_definitions(${target} PRIVATE
    KVFERRY_TESTS_DIR="${PROJECT_SOURCE_DIR}/tests" ${arg_DEFINE})
  target_link_libraries(${target} PRIVATE ${arg_LINK} GTest::gmock GTest::gtest_main)
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  add_dependencies(kvferry_tests ${target})
  kvferry_discover(${target} ${kind})
endfunction()

# Scripts of tests/e2e: NAME.py and NAME.sh; those that begin with "_" are helpers, those with "slow" are slow.
function(kvferry_add_scripts kind)
  file(GLOB scripts CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/${kind}/*.py"
       "${PROJECT_SOURCE_DIR}/tests/${kind}/*.sh")
  foreach(script IN LISTS scripts)
    get_filename_component(name "${script}" NAME)
    if(name MATCHES "^_" OR name STREQUAL "conftest.py")
      continue()
    endif()
    set(runner bash)
    if(name MATCHES "\\.py$")
      set(runner "${Python3_EXECUTABLE}")
    endif()
    add_test(NAME "${kind}/${name}" COMMAND "${runner}" "${script}")
    set(label "${kind}")
    set(seconds ${KVFERRY_TEST_SECONDS})
    if(name MATCHES "slow")
      set(label "${kind}_slow")
      set(seconds ${KVFERRY_SLOW_SECONDS})
    endif()
    set_tests_properties("${kind}/${name}" PROPERTIES LABELS "${label}" TIMEOUT ${seconds}
      ENVIRONMENT "KVFERRY_BINARY=${PROJECT_BINARY_DIR}/kvferry;KVFERRY_SIM_BINARY=${PROJECT_BINARY_DIR}/kvferry-sim")
  endforeach()
endfunction()

set(all kvferry_cli)
set(binaries KVFERRY_BINARY="${PROJECT_BINARY_DIR}/kvferry" KVFERRY_SIM_BINARY="${PROJECT_BINARY_DIR}/kvferry-sim")
kvferry_add_tests(unit LINK ${all})
kvferry_add_tests(property LINK ${all} rapidcheck rapidcheck_gtest)
kvferry_add_tests(conformance LINK ${all})
kvferry_add_tests(runtime LINK ${all})
kvferry_add_tests(golden LINK ${all} DEFINE ${binaries})
kvferry_add_tests(regression LINK ${all} DEFINE ${binaries})
kvferry_add_tests(e2e LINK ${all} DEFINE ${binaries})
kvferry_add_scripts(e2e)
kvferry_add_tests(planner LINK kvferry_planner)
kvferry_add_tests(sim LINK kvferry_simcli)

foreach(program IN ITEMS kvferry kvferry-sim)
  if(TARGET ${program})
    add_dependencies(kvferry_tests ${program})
  endif()
endforeach()
