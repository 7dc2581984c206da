# What `cmake --install` gives to programs: headers, library, CMake package, pkg-config file. Nothing of it names where it lies.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set_target_properties(plait_host PROPERTIES OUTPUT_NAME plait EXPORT_NAME host)
set_target_properties(plait_regmap PROPERTIES EXPORT_NAME regmap)
target_compile_features(plait_host INTERFACE cxx_std_20)
# A C program is linked by the C compiler, which does not know the library of C++.
target_link_libraries(plait_host INTERFACE $<$<LINK_LANGUAGE:C>:stdc++>)

install(DIRECTORY include/plait DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PLAIT_REGMAP_HEADER} ${PLAIT_REGMAP_C_HEADER} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/plait)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/plait)
install(TARGETS plait_host plait_regmap EXPORT plait
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT plait NAMESPACE plait:: FILE plait-config.cmake DESTINATION ${package_folder})
set(version_file ${CMAKE_CURRENT_BINARY_DIR}/plait-config-version.cmake)
write_basic_package_version_file(${version_file} COMPATIBILITY SameMinorVersion)
install(FILES ${version_file} DESTINATION ${package_folder})

set(pkgconfig_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH prefix_from_here /${pkgconfig_folder} /)
string(REGEX REPLACE "/$" "" prefix_from_here ${prefix_from_here})
configure_file(plait.pc.in ${CMAKE_CURRENT_BINARY_DIR}/plait.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/plait.pc DESTINATION ${pkgconfig_folder})
