# What `cmake --install` puts where: the library, its headers, a CMake package (find_package(nezha),
# target nezha::nezha) and a pkg-config file, so that C and C++ programs can be built against it.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(NEZHA_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/nezha)

install(TARGETS nezha EXPORT nezha_targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(NEZHA_MODULES)
  install(TARGETS ${NEZHA_MODULES} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})  # the library looks beside itself
endif()
install(FILES ${PROJECT_SOURCE_DIR}/include/nezha/nezha.h
              ${PROJECT_SOURCE_DIR}/include/nezha/aggregator.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/nezha)
install(EXPORT nezha_targets NAMESPACE nezha:: FILE nezha-targets.cmake
        DESTINATION ${NEZHA_PACKAGE_DIR})

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/nezha-config.cmake.in nezha-config.cmake
                              INSTALL_DESTINATION ${NEZHA_PACKAGE_DIR})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(nezha-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/nezha-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/nezha-config-version.cmake
        DESTINATION ${NEZHA_PACKAGE_DIR})

# The prefix is found from the file's own place, so that an installed tree may be moved.
file(RELATIVE_PATH NEZHA_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" NEZHA_PC_TO_PREFIX "${NEZHA_PC_TO_PREFIX}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/nezha.pc.in nezha.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/nezha.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
