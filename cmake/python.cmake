# The native module of the Python package: build/PRESET/python/kvferry holds the package as it can be imported.
# nanobind comes from the Python that runs: KVFERRY_PYTHON (./run makes a virtual environment for it).
set(KVFERRY_PYTHON "" CACHE FILEPATH "The Python interpreter to build for; it must have nanobind")
if(KVFERRY_PYTHON)
  set(Python_EXECUTABLE "${KVFERRY_PYTHON}")
endif()
find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
execute_process(COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir
  OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE nanobind_ROOT COMMAND_ERROR_IS_FATAL ANY)
find_package(nanobind CONFIG REQUIRED)

kvferry_sources_of(python sources)
# nanobind's own sources are a package, not ours: without the project's warnings.
nanobind_add_module(kvferry_python NB_STATIC NB_SUPPRESS_WARNINGS ${sources})
if(TARGET nanobind-static)
  target_compile_options(nanobind-static PRIVATE -w)
endif()
target_link_libraries(kvferry_python PRIVATE kvferry_testkit kvferry_runtime)
target_link_options(kvferry_python PRIVATE -static-libstdc++ -static-libgcc -Wl,--exclude-libs,ALL)
set(package "${PROJECT_BINARY_DIR}/python/kvferry")
set_target_properties(kvferry_python PROPERTIES OUTPUT_NAME _core LIBRARY_OUTPUT_DIRECTORY "${package}")
file(GLOB modules CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/python/kvferry/*.py*" "${PROJECT_SOURCE_DIR}/python/kvferry/py.typed")
add_custom_target(kvferry_python_package ALL
  COMMAND "${CMAKE_COMMAND}" -E copy_if_different ${modules} "${package}"
  DEPENDS kvferry_python
  VERBATIM)

if(KVFERRY_BUILD_TESTS)
  add_test(NAME python/pytest
    COMMAND "${Python_EXECUTABLE}" -m pytest -q -p no:cacheprovider "${PROJECT_SOURCE_DIR}/python/tests"
    WORKING_DIRECTORY "${PROJECT_BINARY_DIR}/python")
  set_tests_properties(python/pytest PROPERTIES LABELS python TIMEOUT 300
    ENVIRONMENT "PYTHONPATH=${PROJECT_BINARY_DIR}/python;PYTHONDONTWRITEBYTECODE=1")
endif()
