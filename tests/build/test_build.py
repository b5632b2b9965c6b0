"""The build is incremental, and says what is missing."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def make(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = ["make", "--file=csrc/build.mk", f"PYTHON={sys.executable}", *arguments]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)


def compiled(output: str) -> set[str]:
    return {word for line in output.splitlines() for word in line.split() if word.endswith(".c")}


def test_a_second_build_does_nothing() -> None:
    done = make("-n", "ext", "programs")
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) <= {":"}


def test_a_changed_header_compiles_what_includes_it() -> None:
    before, done = make("-n", "ext"), make("-n", "--what-if=csrc/codegen/strips/strips.h", "ext")
    changed = {name.removeprefix(">") for name in compiled(done.stdout) - compiled(before.stdout)}
    assert changed == {
        "build/obj/sources_text.c",  # the digest that keys of kernels have
        "csrc/codegen/strips/strips.c",
        "csrc/codegen/strips/strips_isa.c",
    }


def test_a_changed_prelude_changes_the_embedded_text() -> None:
    done = make("-n", "--what-if=csrc/ir/math/prelude_poly.h", "ext")
    assert any(name.endswith("prelude_text.c") for name in compiled(done.stdout))


def test_without_libtcc_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho libtcc.so\n")
    compiler.chmod(0o755)
    done = make("ext", f"CC={compiler}", f"B={tmp_path}")
    assert done.returncode != 0
    assert "libtcc is missing: install it" in done.stderr
