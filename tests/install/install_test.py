"""The installed tree is complete, names no folder of this machine, and serves C and C++ programs by both ways.

    install_test.py SOURCE-FOLDER BUILD-FOLDER VERSION CMAKE CC CXX          (run by ctest)
"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from example import example

HERE = Path(__file__).resolve().parent
SOURCE, BUILD = (Path(argument).resolve() for argument in sys.argv[1:3])
VERSION, CMAKE, CC, CXX = sys.argv[3:7]
del sys.argv[1:]

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
# Language: compiler, standard, suffix of its sources, language of its example.
LANGUAGES = {"C": (CC, "c11", "c", "c"), "CXX": (CXX, "c++20", "cpp", "cpp")}

PROJECT = """cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES {language})
find_package(plait {version} EXACT REQUIRED)
add_compile_options({warnings})
add_executable(program {program})
target_link_libraries(program PRIVATE plait::host)
add_library(example OBJECT {example})
target_link_libraries(example PRIVATE plait::host)
"""


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command} gave {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def install(prefix):
    """Installs, and takes back the list that CMake leaves in the build folder."""
    manifest = BUILD / "install_manifest.txt"
    before = manifest.read_bytes() if manifest.exists() else None
    try:
        run(CMAKE, "--install", BUILD, "--prefix", prefix)
    finally:
        if before is not None:
            manifest.write_bytes(before)
        else:
            manifest.unlink(missing_ok=True)


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="plait-install-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        install(cls.folder / "first")
        cls.prefix = (cls.folder / "first").rename(cls.folder / "moved")  # the tree may be moved
        cls.sources = {}
        for language, (_, _, suffix, block) in LANGUAGES.items():
            file = cls.folder / f"example.{suffix}"
            file.write_text(example(SOURCE / "docs" / "ep.md", block), encoding="utf-8")
            cls.sources[language] = (HERE / f"program.{suffix}", file)

    def files(self):
        return [file for file in sorted(self.prefix.rglob("*")) if file.is_file()]

    def test_every_public_header_is_there(self):
        headers = {file.name for file in (SOURCE / "hostlib" / "include" / "plait").iterdir()} | {"regmap.h", "regmap.hpp"}
        self.assertEqual({file.name for file in (self.prefix / "include" / "plait").iterdir()}, headers)

    def test_no_folder_of_this_machine_is_named(self):
        self.assertGreater(len(self.files()), 10)
        for file in self.files():
            content = file.read_bytes()
            for folder in (SOURCE, BUILD, self.folder):
                self.assertFalse(bytes(folder) in content, f"{file.relative_to(self.prefix)} names {folder}")

    def test_the_program_finds_its_scenarios(self):
        self.assertIn("ep64-full", run(self.prefix / "bin" / "plait", "list"))

    def test_cmake_package(self):
        for language, (compiler, standard, _, _) in LANGUAGES.items():
            with self.subTest(language):
                folder = self.folder / f"cmake-{language}"
                folder.mkdir()
                program, example_file = self.sources[language]
                # The package asks for the standard of C++ itself.
                options = [*WARNINGS, f"-std={standard}"] if language == "C" else WARNINGS
                (folder / "CMakeLists.txt").write_text(PROJECT.format(
                    language=language, version=VERSION, warnings=" ".join(options), program=program,
                    example=example_file), encoding="utf-8")
                run(CMAKE, "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}",
                    f"-DCMAKE_{language}_COMPILER={compiler}")
                run(CMAKE, "--build", folder / "build")
                self.assertIn("device_removed", run(folder / "build" / "program"))

    def test_pkg_config(self):
        environment = os.environ | {"PKG_CONFIG_PATH": str(self.prefix / "lib" / "pkgconfig")}
        flags = run("pkg-config", "--cflags", "--libs", "plait", env=environment).split()
        self.assertEqual(run("pkg-config", "--modversion", "plait", env=environment).strip(), VERSION)
        for language, (compiler, standard, _, _) in LANGUAGES.items():
            with self.subTest(language):
                program, example_file = self.sources[language]
                output = self.folder / f"program-{language}"
                run(compiler, f"-std={standard}", *WARNINGS, program, "-o", output, *flags)
                self.assertIn("device_removed", run(output))
                run(compiler, f"-std={standard}", *WARNINGS, "-c", example_file, "-o", output.with_suffix(".o"), *flags)


if __name__ == "__main__":
    unittest.main()
