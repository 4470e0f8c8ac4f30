"""The root folder itself: names that change their meaning while they are used."""

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from loopwright.servers.plain_server import Refused
from loopwright.servers.root_folder import Root

SECRET = b"the-secret-outside"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A root with a file and a folder, and beside it a secret under the same names."""
    for folder in ("root/kept", "root/sub", "beside"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "beside" / "a.txt").write_bytes(SECRET)
    (tmp_path / "root" / "kept" / "a.txt").write_bytes(b"inside")
    return tmp_path / "root"


@contextmanager
def repeated(step: Callable[[], None]) -> Iterator[None]:
    """Do a step over and over in another thread."""
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            step()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def swapping(link_to: Path, name: Path) -> Callable[[], None]:
    """Give a name to a link and to the real thing in turn."""
    link, fresh = name.with_name("link"), name.with_name("fresh")
    is_folder = link_to.is_dir()

    def step() -> None:
        link.symlink_to(link_to)
        if is_folder and name.exists():
            shutil.rmtree(name)
        link.rename(name)
        if is_folder:
            fresh.mkdir()
            (fresh / "a.txt").write_bytes(b"inside")
            name.unlink()
        else:
            fresh.write_bytes(b"inside")
        fresh.rename(name)

    def tolerant() -> None:
        try:
            step()
        except OSError:  # the root made the folder anew in between
            link.unlink(missing_ok=True)
            shutil.rmtree(fresh, ignore_errors=True)
            if name.is_symlink():
                name.unlink()

    return tolerant


def outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except Refused as refused:
        return str(refused)


def listed(root: Root, parts: tuple[str, ...]) -> int:
    return len(list(root.walk(parts, recursive=True)))


def tries(least: int, seen: set[object]) -> Iterator[int]:
    """So many tries, and on a crowded machine more, until the race has gone one way and another."""
    for number in range(100 * least):
        if number >= least and len(seen) > 1:
            return
        yield number


def test_a_file_that_becomes_a_link_is_not_followed(place: Path) -> None:
    root = Root(str(place))
    seen: set[object] = set()
    with repeated(swapping(place.parent / "beside" / "a.txt", place / "flip")):
        for _ in tries(2_000, seen):
            found = outcome(lambda: root.read(("flip",), 100).data)
            outcome(lambda: root.append(("flip",), b""))
            seen.add(found)
    assert SECRET not in seen
    assert len(seen) > 1


def test_a_folder_that_becomes_a_link_is_not_entered(place: Path) -> None:
    root = Root(str(place))
    seen: set[object] = set()
    with repeated(swapping(place.parent / "beside", place / "flip")):
        for number in tries(1_000, seen):
            seen.add(outcome(lambda: root.read(("flip", "a.txt"), 100).data))
            name = f"{number % 10}.txt"
            outcome(partial(root.write, ("flip", name), b"x", overwrite=True))
    assert SECRET not in seen
    assert len(seen) > 1
    assert os.listdir(place.parent / "beside") == ["a.txt"]


def test_a_file_that_becomes_a_pipe_does_not_block(place: Path) -> None:
    root = Root(str(place))

    def step() -> None:
        os.mkfifo(place / "new")
        (place / "new").rename(place / "flip")
        (place / "new").write_bytes(b"inside")
        (place / "new").rename(place / "flip")

    with repeated(step):
        for _ in range(2_000):
            found = outcome(lambda: root.read(("flip",), 100).data)
            assert found == b"inside" or isinstance(found, str)


def test_readers_see_the_old_or_the_new_file_never_a_part(place: Path) -> None:
    root = Root(str(place))
    contents = (b"a" * 200_000, b"b" * 100_000)
    root.write(("f",), contents[0], overwrite=True)

    def step() -> None:
        for content in reversed(contents):
            root.write(("f",), content, overwrite=True)

    with repeated(step):
        for _ in range(200):
            assert root.read(("f",), 300_000).data in contents


def test_of_many_programs_that_make_one_file_one_wins(place: Path) -> None:
    roots = [Root(str(place)) for _ in range(4)]
    for number in range(50):
        name = ("sub", f"{number}.txt")
        with ThreadPoolExecutor(len(roots)) as pool:
            made = [
                pool.submit(outcome, partial(root.write, name, b"%d" % n, overwrite=False))
                for n, root in enumerate(roots)
            ]
        assert [future.result() for future in made].count("created") == 1
    names = {found.name for found in (place / "sub").iterdir()}
    assert names == {f"{number}.txt" for number in range(50)}


def test_a_walk_does_not_go_deeper_than_a_path_can(place: Path) -> None:
    deep = place.joinpath(*["d"] * 70)
    deep.mkdir(parents=True)
    found = list(Root(str(place)).walk(("d",), recursive=True))
    assert max(len(entry.parts) for entry in found) == 64


def test_no_descriptor_is_left_open(place: Path) -> None:
    root = Root(str(place))
    (place / "link").symlink_to("kept")
    before = len(os.listdir("/dev/fd"))
    for parts in (("kept", "a.txt"), ("link", "a.txt"), ("kept",), ("nope", "x"), ("kept", "x")):
        outcome(partial(root.read, parts, 10))
        outcome(partial(root.write, parts, b"x", overwrite=False))
        outcome(partial(listed, root, parts))
    assert len(os.listdir("/dev/fd")) == before
