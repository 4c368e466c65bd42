# libkvferry.so: all production libraries in one, exporting only what KVFERRY_API marks (everything is compiled hidden;
# the version script also keeps the inline functions of packages inside). Then headers, program, CMake and pkg-config files.
include(CMakePackageConfigHelpers)

get_property(libraries GLOBAL PROPERTY KVFERRY_LIBRARIES)
set(objects "")
foreach(library IN LISTS libraries)
  get_target_property(type ${library} TYPE)
  if(type STREQUAL "STATIC_LIBRARY" AND NOT library MATCHES "^kvferry_(sim|replay)$")
    list(APPEND objects $<TARGET_OBJECTS:${library}>)
  endif()
endforeach()

if(objects)
  set(exports "${PROJECT_SOURCE_DIR}/cmake/exports.map")
  add_library(kvferry_shared SHARED ${objects})
  add_library(kvferry::kvferry ALIAS kvferry_shared)
  set_target_properties(kvferry_shared PROPERTIES
    OUTPUT_NAME kvferry EXPORT_NAME kvferry LINKER_LANGUAGE CXX
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} LINK_DEPENDS "${exports}")
  target_include_directories(kvferry_shared PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(kvferry_shared PUBLIC cxx_std_20)
  target_link_libraries(kvferry_shared PUBLIC tl::expected
    PRIVATE PkgConfig::XXHASH fmt::fmt spdlog::spdlog Threads::Threads)
  target_link_options(kvferry_shared PRIVATE "-Wl,--version-script=${exports}")
  if(NOT KVFERRY_SANITIZE)
    target_link_options(kvferry_shared PRIVATE "-Wl,--no-undefined")
  endif()

  install(TARGETS kvferry_shared EXPORT kvferryTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/kvferry" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
          FILES_MATCHING PATTERN "*.h")
  install(EXPORT kvferryTargets NAMESPACE kvferry:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kvferry)
  configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/kvferryConfig.cmake.in"
    "${PROJECT_BINARY_DIR}/kvferryConfig.cmake" INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kvferry)
  write_basic_package_version_file("${PROJECT_BINARY_DIR}/kvferryConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
  install(FILES "${PROJECT_BINARY_DIR}/kvferryConfig.cmake" "${PROJECT_BINARY_DIR}/kvferryConfigVersion.cmake"
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kvferry)
  file(RELATIVE_PATH KVFERRY_PC_PREFIX "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/") # ./run install names the prefix later
  configure_file("${PROJECT_SOURCE_DIR}/cmake/kvferry.pc.in" "${PROJECT_BINARY_DIR}/kvferry.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/kvferry.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
else()
  message(NOTICE "kvferry: no sources yet, so there is no libkvferry.so")
endif()

# kvferry-sim holds the mutants and stays in the build tree.
if(TARGET kvferry)
  install(TARGETS kvferry RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
