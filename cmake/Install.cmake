# cmake --install and the Debian package: the program, its manual page and completion (written by the
# program itself), and the documents.
include(GNUInstallDirs)
# Installing takes what is built; it does not build the tests.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)

set(written ${PROJECT_BINARY_DIR}/written)
file(MAKE_DIRECTORY ${written})
add_custom_command(
  OUTPUT ${written}/kimi_k3.1 ${written}/kimi_k3.1.gz ${written}/kimi_k3 ${written}/_kimi_k3 ${written}/kimi_k3.fish
  COMMAND kimi_k3 man > ${written}/kimi_k3.1
  COMMAND gzip -9nkf ${written}/kimi_k3.1
  COMMAND kimi_k3 completion bash > ${written}/kimi_k3
  COMMAND kimi_k3 completion zsh > ${written}/_kimi_k3
  COMMAND kimi_k3 completion fish > ${written}/kimi_k3.fish
  DEPENDS kimi_k3
  VERBATIM)
add_custom_target(written ALL DEPENDS ${written}/kimi_k3.1)

install(TARGETS kimi_k3 RUNTIME)
install(FILES ${written}/kimi_k3.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${written}/kimi_k3 DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${written}/_kimi_k3 DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
install(FILES ${written}/kimi_k3.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
file(GLOB documents CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/*.md)
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/LICENSE ${documents}
        DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/kimi-k3)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE RENAME copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/kimi-k3)

set(CPACK_PACKAGE_NAME kimi-k3)
set(CPACK_PACKAGE_VENDOR "the kimi_k3 project")
set(CPACK_PACKAGE_CONTACT "the kimi_k3 project <kimi-k3@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Runs Kimi K3 on an ordinary computer")
set(CPACK_PACKAGE_DESCRIPTION
    "Runs Kimi K3, a language model of 2.78 trillion parameters, reading the weights from disk while it computes, in as much memory as it is allowed.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_GENERATOR DEB)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS ca-certificates)
include(CPack)
