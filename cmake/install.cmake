# What `cmake --install` puts where: the library, its headers, a CMake package (find_package(nezha),
# target nezha::nezha) and a pkg-config file, so that C and C++ programs can be built against it.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(NEZHA_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/nezha)

install(TARGETS nezha EXPORT nezha_targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(NEZHA_MODULES)
  # The library looks beside itself.
  install(TARGETS ${NEZHA_MODULES} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
endif()
install(FILES ${PROJECT_SOURCE_DIR}/include/nezha/nezha.h
              ${PROJECT_SOURCE_DIR}/include/nezha/aggregator.h
              ${PROJECT_SOURCE_DIR}/include/nezha/mpi.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/nezha COMPONENT development)
install(EXPORT nezha_targets NAMESPACE nezha:: FILE nezha-targets.cmake
        DESTINATION ${NEZHA_PACKAGE_DIR} COMPONENT development)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/nezha-config.cmake.in nezha-config.cmake
                              INSTALL_DESTINATION ${NEZHA_PACKAGE_DIR})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(nezha-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/nezha-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/nezha-config-version.cmake
        DESTINATION ${NEZHA_PACKAGE_DIR} COMPONENT development)

# The prefix is found from the file's own place, so that an installed tree may be moved.
file(RELATIVE_PATH NEZHA_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" NEZHA_PC_TO_PREFIX "${NEZHA_PC_TO_PREFIX}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/nezha.pc.in nezha.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/nezha.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
        COMPONENT development)

# Debian packages: `cpack -G DEB` in the build folder.
set(CPACK_PACKAGE_NAME nezha)
set(CPACK_PACKAGE_CONTACT "The Nezha authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Collective communication over every network of a node at once")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL library development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libnezha0)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SUGGESTS libfabric1)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libnezha-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libnezha0 (= ${PROJECT_VERSION})")
include(CPack)
