"""The memory of a process and its children."""

import os
import subprocess
import sys

from comparison.memory import MemoryWatch, process_tree, resident_bytes

PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "print('up', flush=True); input()"],
                         stdin=subprocess.PIPE)
sys.stdin.read()
child.stdin.close()
child.wait()
"""


def test_children_are_part_of_the_tree():
    """A server may be several processes."""
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        parent.stdout.readline()  # the child shares stdout
        tree = process_tree([parent.pid])
        total = resident_bytes([parent.pid])
        assert len(tree) == 2
        assert total > max(process.memory_info().rss for process in tree)
        parent.stdin.close()


def test_a_process_that_is_gone_counts_nothing():
    """A server may end while it is watched."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert resident_bytes([process.pid]) == 0


def test_the_peak_outlasts_the_memory():
    """What was freed before the end counts too."""
    with MemoryWatch([os.getpid()]) as watch:
        before = watch.peak_bytes
    assert before > 0
    assert watch.peak_bytes >= before
