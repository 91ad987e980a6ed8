"""usable_cpus over made-up /proc and /sys trees, so that every kind of container is covered."""

import os

import pytest

from service.quota import usable_cpus

HAVE = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


@pytest.fixture(autouse=True)
def eight_processors(monkeypatch):
    """The machine that runs the tests has any number; the mask is the system's, not ours."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)


def tree(root, groups, **files):
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)
    for name, content in files.items():
        path = root / "sys/fs/cgroup" / name.replace("__", "/").replace("_max", ".max")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


def v1(root, folder, quota, period="100000\n"):
    path = root / "sys/fs/cgroup" / folder
    path.mkdir(parents=True, exist_ok=True)
    (path / "cpu.cfs_quota_us").write_text(quota)
    (path / "cpu.cfs_period_us").write_text(period)
    return root


def test_without_any_cgroup_the_affinity_mask_counts(tmp_path) -> None:
    assert usable_cpus(tmp_path) == 8


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("300000 100000\n", 3),
        ("250000 100000\n", 2),
        ("50000 100000\n", 1),
        ("1600000 100000\n", 8),
        ("max 100000\n", 8),
        ("", 8),
        ("nonsense\n", 8),
        ("100000 0\n", 8),
    ],
)
def test_a_version_2_quota_is_rounded_down_and_never_below_one(tmp_path, limit, expected) -> None:
    assert usable_cpus(tree(tmp_path, "0::/\n", cpu_max=limit)) == expected


def test_the_tightest_group_above_us_binds(tmp_path) -> None:
    root = tree(
        tmp_path,
        "0::/kubepods/pod7/app\n",
        kubepods__cpu_max="600000 100000",
        kubepods__pod7__cpu_max="200000 100000",
        kubepods__pod7__app__cpu_max="max 100000",
    )
    assert usable_cpus(root) == 2


def test_a_group_named_as_the_host_sees_it_falls_back_to_the_mount(tmp_path) -> None:
    root = tree(tmp_path, "0::/docker/0123abc\n", cpu_max="400000 100000")
    assert usable_cpus(root) == 4


@pytest.mark.parametrize("mount", ["cpu,cpuacct", "cpu"])
@pytest.mark.parametrize("group", ["docker/0123abc", "."])
def test_a_version_1_quota_is_found_at_either_mount(tmp_path, mount, group) -> None:
    root = tree(tmp_path, "9:memory:/x\n4:cpu,cpuacct:/docker/0123abc\n0::/\n")
    assert usable_cpus(v1(root, f"{mount}/{group}", "300000\n")) == 3


def test_version_1_says_minus_one_for_no_limit(tmp_path) -> None:
    assert usable_cpus(v1(tree(tmp_path, "4:cpu:/\n"), "cpu", "-1\n")) == 8


def test_cpuset_is_not_taken_for_cpu(tmp_path) -> None:
    root = tree(tmp_path, "5:cpuset:/\n")
    assert usable_cpus(v1(root, "cpuset", "100000\n")) == 8


def test_a_group_cannot_lead_out_of_the_mount(tmp_path) -> None:
    root = tree(tmp_path, "0::/../../elsewhere\n", cpu_max="200000 100000")
    (tmp_path / "sys/elsewhere").mkdir()
    (tmp_path / "sys/elsewhere/cpu.max").write_text("100000 100000")
    assert usable_cpus(root) == 2


def test_this_machine_has_at_least_one(monkeypatch) -> None:
    monkeypatch.undo()
    assert 1 <= usable_cpus() <= HAVE
