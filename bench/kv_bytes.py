"""Measures what a position of the latent cache and a recurrent state take (bench/kv_bytes.sh)."""
import ctypes
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

MODEL = str(pathlib.Path(__file__).resolve().parent.parent / "models/tiny")
ROUNDS = 5
SHORT = 25_000  # from here on every buffer of a session is in use


def plan(program, *flags):
    command = [program, "plan", "--json", "--no-measure", *flags]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def state_bytes(planned):
    return next(i["bytes"] for i in planned["items"] if i["name"] == "state and latent cache")


def small_pages():
    """Huge pages would round what is counted up to 2 MiB."""
    ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE


def run(program, folder, *flags):
    """Peak by --stats, and what the system counts once the first token is out."""
    stats = folder / "stats.json"
    command = [program, *flags, "--ignore-eos", "--stats", str(stats)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          preexec_fn=small_pages) as process:
        process.stdout.read(1)
        rollup = pathlib.Path(f"/proc/{process.pid}/smaps_rollup").read_text()
        process.stdout.read()
    if process.returncode != 0:
        sys.exit(f"{command} ended with {process.returncode}")
    peak = json.loads(stats.read_text())["decode"]["peak_resident_bytes"]
    return peak, int(re.search(r"^Rss:\s+(\d+)", rollup, re.M).group(1)) * 1024


def per_position(program, lengthen, folder, positions, tokens, *flags):
    """(own account, the system's) of one position more, medians."""
    first = str(folder / "first")
    context = str(positions + 2000)
    base = ["-m", MODEL, "--expert-cache", "0", *flags]  # no texts of other experts
    subprocess.run([program, *base, "--raw", "-p", "In the beginning God created the heaven",
                    "-n", "4", "--session", first], check=True, capture_output=True)
    rounds = []
    for _ in range(ROUNDS):
        counts = []
        for length in (SHORT, positions):
            session = str(folder / f"of-{length}")
            subprocess.run([lengthen, *base, "-c", str(length), "--from", first, "--to", session],
                           check=True)
            counts.append(run(program, folder, *base, "-c", context, "--session", session, "-p",
                              " And", "-n", str(tokens), "--session-every", "10000"))
            pathlib.Path(session).unlink()
        rounds.append([(long - short) / (positions - SHORT) for short, long in zip(*counts)])
    pathlib.Path(first).unlink()
    return [statistics.median(column) for column in zip(*rounds)]


def caches(program, lengthen, positions):
    print("| `--kv-cache-quant` | planned, bytes a position | by `--stats` | by the system |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        text = per_position(program, lengthen, folder, positions, 1500, "--shard", "layers=0-2")
        for kind in ("none", "bf16", "q8", "q4"):
            flags = ["--kv-cache-quant", kind]
            planned = [state_bytes(plan(program, "-m", MODEL, "-c", str(c), *flags))
                       for c in (SHORT, positions)]
            own, system = per_position(program, lengthen, folder, positions, 100, *flags)
            print(f"| {kind} | {(planned[1] - planned[0]) / (positions - SHORT):.1f} "
                  f"| {own - text[0]:.1f} | {system - text[1]:.1f} |", flush=True)
    print(f"\nA position of the text itself: {text[0]:.1f} by --stats, {text[1]:.1f} by the system.")


def states(program):
    print("\n| `--state-type` | planned, MB | process by `--stats`, MB | by the system, MB |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model = str(folder / "k3")
        subprocess.run([program, "synth", "--geometry", "k3", "--sparse", "-o", model, "--quiet"],
                       check=True)
        counts = []
        for kind in ("f32", "bf16"):
            flags = ["-m", model, "--state-type", kind, "-c", "64"]
            roomy = plan(program, *flags, "--memory", "8G")
            least = str(roomy["smallest_bytes"] + 16_000_000)
            own, system = run(program, folder, *flags, "--memory", least, "--token-ids", "1",
                              "-n", "2")
            counts.append((state_bytes(roomy), own, system))
            print(f"| {kind} | " + " | ".join(f"{n / 1e6:.1f}" for n in counts[-1]) + " |",
                  flush=True)
        saved = [f"{(f32 - bf16) / 1e6:.1f}" for f32, bf16 in zip(*counts)]
        print(f"| saved | {' | '.join(saved)} |")


def main():
    program, lengthen = sys.argv[1:3]
    caches(program, lengthen, int(sys.argv[3]) if len(sys.argv) > 3 else 100_000)
    states(program)


if __name__ == "__main__":
    main()
