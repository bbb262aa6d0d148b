"""The official OpenAI client libraries against `kimi_k3 serve`.

Usage: client_test.py python|node PROGRAM FOLDER

Installs the library of that language into FOLDER, unless it is there, and runs its test. Exits with
77, saying why, where the language or its package registry is not to be had.
"""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from serving import serving, skip

HERE = pathlib.Path(__file__).resolve().parent
INSTALL_SECONDS = 150
PIP_FLAGS = ["--quiet", "--disable-pip-version-check", "--timeout", "8", "--retries", "0"]


def install(command, folder, what, **options):
    """Runs an installer; a folder in which it failed is removed."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=INSTALL_SECONDS, check=False, **options)
        failure = done.stdout[-600:] if done.returncode else None
    except subprocess.TimeoutExpired:
        failure = f"no end within {INSTALL_SECONDS} s"
    if failure is not None:
        shutil.rmtree(folder, ignore_errors=True)
        skip(f"{what} cannot be installed: {failure}")


def install_python(folder):
    python = folder / "bin/python"
    requirements = HERE / "requirements.txt"
    mark = folder / requirements.name
    if mark.exists() and mark.read_bytes() == requirements.read_bytes():
        return python
    # Where nothing can be fetched, that is found out before an environment is made.
    if importlib.util.find_spec("pip"):
        with tempfile.TemporaryDirectory() as scratch:
            install([sys.executable, "-m", "pip", "download", *PIP_FLAGS, "--no-deps", "-d", scratch,
                     "-r", str(requirements)], folder, "the openai library for Python")
    install([sys.executable, "-m", "venv", "--clear", str(folder)], folder, "a virtual environment")
    install([str(python), "-m", "pip", "install", *PIP_FLAGS, "-r", str(requirements)],
            folder, "the openai library for Python")
    shutil.copy(requirements, mark)
    return python


def install_node(folder):
    if not shutil.which("node") or not shutil.which("npm"):
        skip("node and npm are not installed")
    mark = folder / "installed.json"
    package = HERE / "package.json"
    if not (mark.exists() and mark.read_bytes() == package.read_bytes()):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        shutil.copy(package, folder)
        install(["npm", "install", "--loglevel=error", "--no-audit", "--no-fund", "--no-update-notifier",
                 "--fetch-retries=0", "--fetch-timeout=20000"],
                folder, "the openai library for JavaScript", cwd=folder)
        shutil.copy(package, mark)
    # Modules are looked up from the folder of the file that imports them.
    shutil.copy(HERE / "openai_client.mjs", folder)
    return folder / "openai_client.mjs"


def main():
    language, program, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    if language == "python":
        command = [str(install_python(folder)), str(HERE / "openai_client.py")]
    else:
        command = ["node", str(install_node(folder))]
    with serving(program, "--parallel", "2", "-c", "700") as address:
        environment = dict(os.environ, KIMI_K3_ADDRESS=address)
        sys.exit(subprocess.run(command, env=environment, timeout=200, check=False).returncode)


if __name__ == "__main__":
    main()
