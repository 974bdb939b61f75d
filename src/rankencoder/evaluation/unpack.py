"""SentEval's data out of an archive from the network, which is not to be trusted."""

from __future__ import annotations

import errno
import shutil
import tarfile
import zlib
from pathlib import Path

from rankencoder.encoders import first_line
from rankencoder.errors import InputError

_MOST_BYTES = 4 * 2**30
_MOST_FILES = 10_000
# that names in it fit neither the disk nor each other; all other errors are the disk's
_OF_NAMES = (errno.EEXIST, errno.ENAMETOOLONG, errno.EISDIR, errno.ENOTDIR, errno.EINVAL, errno.EILSEQ)


def unpack_senteval(archive: Path, target: Path) -> None:
    """Unpack the folder of an archive that holds ``STS``, be it at its top or further down.

    :param target: The folder to be; an earlier one is replaced.
    :raises InputError: If the archive is damaged, holds no ``STS``, or anything but plain files that stay
        where they belong.
    """
    unpacked = target.with_name(f"{target.name}-unpacked")
    for left in (target, unpacked):
        shutil.rmtree(left, ignore_errors=True)
    try:
        _extract(archive, unpacked)
    except (tarfile.TarError, EOFError, zlib.error, ValueError, OSError) as error:
        if isinstance(error, InputError) or (isinstance(error, OSError) and error.errno not in _OF_NAMES):
            raise
        raise InputError(f"{archive.name} is not unpacked: {first_line(error)}") from error
    found = [path.parent for path in unpacked.rglob("STS") if path.is_dir()]
    if not found:
        raise InputError(f"{archive.name} is not SentEval's data: it holds no folder STS")
    min(found, key=lambda path: len(path.parts)).rename(target)


def _extract(archive: Path, target: Path) -> None:
    size = 0
    with tarfile.open(archive) as tar:
        for number, member in enumerate(tar, start=1):
            size += member.size
            if not (member.isfile() or member.isdir()):
                raise InputError(f"{archive.name} is not unpacked: {member.name} in it is no plain file")
            if number > _MOST_FILES or size > _MOST_BYTES:
                raise InputError(f"{archive.name} is not unpacked: it is far larger than SentEval's data")
            tar.extract(member, target, filter="data")
