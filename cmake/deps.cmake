# What comes from the system. tools/install_deps.sh names the packages.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(tl-expected REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json 3.10 REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Boost 1.81 REQUIRED CONFIG)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)

# Packages only for the libraries that touch the world; the pure ones do not link them.
add_library(kvferry_shell_deps INTERFACE)
target_link_libraries(kvferry_shell_deps INTERFACE
  Boost::headers spdlog::spdlog nlohmann_json::nlohmann_json Threads::Threads ${CMAKE_DL_LIBS})
