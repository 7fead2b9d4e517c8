"""Types are decoded by many threads at once. Without the lock the process of this test ends with SIGSEGV."""

from __future__ import annotations

import subprocess
import sys

THREADS = """
import sys, threading
sys.setswitchinterval(1e-6)
import msgspec
from omnigraph.base.decoding import convert, decode_json

fields = "".join(f"    f{number}: 'int | str | None' = None\\n" for number in range(12))
source = "class S0(msgspec.Struct):\\n" + fields
for number in range(1, 30):
    source += f"class S{number}(msgspec.Struct):\\n{fields}    inner: 'S{number - 1} | None' = None\\n"
for _ in range(10):
    exec(source)
    barrier = threading.Barrier(8)

    def use(kind):
        barrier.wait()
        assert decode_json(b'{"f1": 3, "inner": {"f2": "x"}}', kind).inner.f2 == "x"
        assert convert({"f1": 3}, kind).f1 == 3

    threads = [threading.Thread(target=use, args=(S29,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("done")
"""


def test_threads_decode_a_type_at_the_same_time() -> None:
    outcome = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, check=False)
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (0, "done\n", "")
