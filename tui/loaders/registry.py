"""The registry of loaders: the loader with the highest confidence in the content reads an input.

The loaders of one kind of content are imported together when such content is first met: the other kinds would take
a tenth of the time that opening a small file takes.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache as cached
from functools import partial
from io import BytesIO
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from tui.correlation.graph_replays import has_replays
from tui.loaders.base import ProgressCallback, keep_going
from tui.loaders.dataset_loader import DATASET, is_address, is_dataset
from tui.loaders.input_file import InputFile, zip_members
from tui.loaders.input_issues import file_kind, kind_by_name
from tui.loaders.raw_input import STANDARD_INPUT
from tui.loaders.temp_folders import clear_abandoned_temp_folders
from tui.loaders.text.text_log import TextLogLoader, looks_like_text
from tui.model.errors import FORMATS_HINT, ProftuiError
from tui.options import path_exists

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tui.loaders.base import Format, Loader, ProfileCache
    from tui.loaders.multi_file.read_files import WantedFile
    from tui.loaders.sqlite.database import DatabaseLoader
    from tui.loaders.text.section import TextFormat
    from tui.model.profile import Profile


@cached
def _text_formats() -> tuple[TextFormat, ...]:
    """Return the formats of text logs, of which a log may hold several."""
    from tui.loaders.ascend_csv import ASCEND_CSV
    from tui.loaders.caffe import CAFFE
    from tui.loaders.dlprof.csv_reports import DLPROF_CSV
    from tui.loaders.ncu.ncu_csv import NCU_CSV
    from tui.loaders.nsys_stats.stats_reader import NSYS_STATS
    from tui.loaders.nvprof.nvprof_reader import NVPROF
    from tui.loaders.paleo import PALEO
    from tui.loaders.rocprof.rocprof_csv import ROCPROF_CSV, ROCPROFV3_CSV
    from tui.loaders.tensorrt import TENSORRT_LOG
    from tui.loaders.torch_table import TORCH_TABLE
    from tui.loaders.unitrace import UNITRACE

    return (
        NVPROF,
        NSYS_STATS,
        NCU_CSV,
        ROCPROFV3_CSV,
        ROCPROF_CSV,
        DLPROF_CSV,
        CAFFE,
        PALEO,
        TORCH_TABLE,
        UNITRACE,
        TENSORRT_LOG,
        ASCEND_CSV,
    )


@cached
def _text_loaders() -> tuple[Loader, ...]:
    return (TextLogLoader(_text_formats()),)


@cached
def _database_loader() -> DatabaseLoader:
    from tui.loaders.ascend_database import ASCEND_DATABASE
    from tui.loaders.dlprof.dlprof_database import DLPROF_DATABASE
    from tui.loaders.nsys.nsys_export import NSYS_DATABASE
    from tui.loaders.nvprof.nvprof_database import NVPROF_DATABASE
    from tui.loaders.rocprof.rocprof_database import ROCPD, ROCPROF_DATABASE, RPD_TRACE
    from tui.loaders.sqlite.database import DatabaseLoader

    return DatabaseLoader(
        (DLPROF_DATABASE, NSYS_DATABASE, NVPROF_DATABASE, ROCPD, ROCPROF_DATABASE, RPD_TRACE, ASCEND_DATABASE)
    )


@cached
def _binary_loaders() -> tuple[Loader, ...]:
    """Return the loaders of databases, other binary files, and folders."""
    from tui.loaders.memory_snapshot import MEMORY_SNAPSHOT
    from tui.loaders.ncu.ncu_report_file import NcuReportLoader
    from tui.loaders.nsys.parquet_export import NSYS_FOLDER
    from tui.loaders.nsys.report_file import NSYS_REPORT
    from tui.loaders.perfetto import PERFETTO
    from tui.loaders.xplane import XPLANE

    return (
        _database_loader(),
        NSYS_REPORT,
        NSYS_FOLDER,
        DATASET,
        NcuReportLoader(),
        MEMORY_SNAPSHOT,
        XPLANE,
        PERFETTO,
    )


@cached
def _json_loaders() -> tuple[Loader, ...]:
    """Return the loaders of JSON documents."""
    from tui.loaders.ascend_csv import AscendCommunicationLoader
    from tui.loaders.kineto.kineto_loader import KinetoLoader
    from tui.loaders.proton import ProtonLoader
    from tui.loaders.rocprof.rocprofv3_json import RocprofTraceLoader, Rocprofv3JsonLoader
    from tui.loaders.tensorrt import TensorRtJsonLoader
    from tui.loaders.tf_timeline import TfTimelineLoader
    from tui.loaders.unitrace import UnitraceTraceLoader
    from tui.loaders.xla_trace import XlaTraceLoader

    return (
        KinetoLoader(),
        UnitraceTraceLoader(),
        XlaTraceLoader(),
        TfTimelineLoader(),
        Rocprofv3JsonLoader(),
        RocprofTraceLoader(),
        TensorRtJsonLoader(),
        ProtonLoader(),
        AscendCommunicationLoader(),
    )


_BOM: Final = b"\xef\xbb\xbf"


def _loaders_by_content(head: bytes) -> tuple[Callable[[], tuple[Loader, ...]], ...]:
    """Return all kinds of loaders, the one most likely to read an input that begins with ``head`` first."""
    if head.removeprefix(_BOM).lstrip()[:1] in (b"{", b"["):
        return _json_loaders, _text_loaders, _binary_loaders
    if looks_like_text(head):
        return _text_loaders, _json_loaders, _binary_loaders
    return _binary_loaders, _json_loaders, _text_loaders


_CERTAIN: Final = 0.9
"""With this confidence no loaders of other content are probed."""
_MIN_CONFIDENCE: Final = 0.5
"""The least confidence to open a file of a folder."""


def formats() -> tuple[Format, ...]:
    """Return all supported formats."""
    loaders = (*_text_loaders(), *_binary_loaders(), *_json_loaders())
    return tuple(form for loader in loaders for form in loader.formats)


def load(
    paths: Sequence[str],
    *,
    format_in: str | None = None,
    on_progress: ProgressCallback = keep_going,
    cache: ProfileCache | None = None,
) -> tuple[Profile | None, list[ProftuiError]]:
    """Read inputs into one profile, sessions in the order of the paths; an unreadable input does not stop the others.

    Args:
        paths: Files; ``-`` is standard input.
        format_in: As for `load_input`.
        on_progress: As for `load_input`.
        cache: As for `load_input`.

    Returns:
        The profile, or None if nothing could be read; and an error for each input that could not be read.
    """
    clear_abandoned_temp_folders()
    profile: Profile | None
    errors: list[ProftuiError]
    if len(paths) == 1 and not _is_folder(paths[0]):
        try:
            profile, errors = load_input(paths[0], format_in=format_in, on_progress=on_progress, cache=cache), []
        except ProftuiError as error:
            profile, errors = None, [error]
    else:
        from tui.loaders.multi_file.load_together import load_together

        profile, errors = load_together(
            paths,
            _is_folder,
            partial(_load_file, format_in=format_in, cache=cache),
            format_in=format_in,
            on_progress=on_progress,
            cache=cache,
        )
    if profile is not None and has_replays(profile):
        from tui.loaders.multi_file.load_together import link_captured_ops

        profile = link_captured_ops(profile, partial(_load_capture, cache=cache))
    return profile, errors


def _load_capture(path: str, cache: ProfileCache | None) -> Profile | None:
    """Read a trace of the capture of a CUDA graph; None if the file is no profile."""
    return load_input(path, cache=cache) if is_profile(path) else None


def load_input(
    path: str,
    *,
    format_in: str | None = None,
    on_progress: ProgressCallback = keep_going,
    stream: BinaryIO | None = None,
    cache: ProfileCache | None = None,
) -> Profile:
    """Read one input.

    Args:
        path: A file, a folder of profiles, or ``-`` for standard input.
        format_in: The name of a format (`formats`); None: recognize it by the content.
        on_progress: Gets the progress; if it returns False, loading stops and the profile is partial.
        stream: The stream to read instead of the file.
        cache: The cache of profiles; None: neither read nor written.

    Raises:
        ProftuiError: The input cannot be opened or holds no profile.
    """
    loader = None if format_in is None else _loader_for(format_in)
    if stream is None and loader in (None, DATASET) and (is_address(path) or is_dataset(Path(path))):
        return DATASET.load_folder(path, on_progress, cache)
    if stream is None and path_exists(path) and Path(path).is_dir():
        from tui.loaders.nsys.parquet_export import NSYS_FOLDER, decline_arrowdir, is_parquetdir

        if loader in (None, NSYS_FOLDER) and is_parquetdir(Path(path)):
            return NSYS_FOLDER.load_folder(Path(path), on_progress)
        decline_arrowdir(Path(path))
    if stream is None and _is_folder(path):
        profile, errors = load((path,), format_in=format_in, on_progress=on_progress, cache=cache)
        if profile is None:
            raise errors[0]
        return profile

    def read() -> Profile:
        source = InputFile.open(path, stream=stream, on_progress=on_progress)
        return (loader or _recognize(source)).load(source, on_progress)

    return (
        read()
        if cache is None or stream is not None or path == STANDARD_INPUT
        else cache.profile(path, format_in, read)
    )


def inputs(path: str) -> list[str]:
    """Return the inputs at a path: the profiles in a folder, otherwise the path itself.

    Raises:
        ProftuiError: A folder cannot be listed, or holds no profile.
    """
    if not _is_folder(path):
        return [path]
    from tui.loaders.multi_file.load_together import profile_files

    profiles = [file for file in profile_files(path) if is_profile(file)]
    if not profiles:
        raise ProftuiError(f"{path}: no profile found", FORMATS_HINT)
    return profiles


def _loader_for(format_in: str) -> Loader:
    """Return a loader restricted to one format; a text can hold several."""
    for text_format in _text_formats():
        if text_format.format.name == format_in:
            return TextLogLoader((text_format,))
    for loader in (*_binary_loaders(), *_json_loaders()):
        if any(form.name == format_in for form in loader.formats):
            return _database_loader().only(format_in) or loader
    raise ProftuiError(f"unknown format {format_in}", f"choose one of {', '.join(form.name for form in formats())}")


def _is_folder(path: str) -> bool:
    """Return whether a path is a folder of profiles or an archive of several files, not a profile that is a folder."""
    if not path or not path_exists(path):
        return False
    if not Path(path).is_dir():
        return bool(zip_members(path))
    from tui.loaders.nsys.parquet_export import is_parquetdir

    return not (is_parquetdir(Path(path)) or is_dataset(Path(path)))


def _load_file(
    file: WantedFile, on_progress: ProgressCallback, *, format_in: str | None, cache: ProfileCache | None
) -> Profile | None:
    if file.may_be_none and not is_profile(file.path):
        return None
    # Here the caller caches whole files; only a dataset uses the cache itself.
    is_whole_file = not (is_address(file.path) or is_dataset(Path(file.path)))
    return load_input(file.path, format_in=format_in, on_progress=on_progress, cache=None if is_whole_file else cache)


def is_profile(path: str) -> bool:
    """Return whether a file begins like a profile; a text must have its first table within the probed bytes."""
    source = InputFile.open(path)
    return file_kind(source.head) is None and _most_confident(source)[0] >= _MIN_CONFIDENCE


def read_head(path: str) -> bytes:
    """Return the first 64 KiB of a file, decompressed.

    Raises:
        ProftuiError: It cannot be opened.
    """
    return InputFile.open(path).head


def recognized_format(path: str) -> str:
    """Return the name of the format of a file or folder, by its beginning; empty if it is no profile.

    Raises:
        ProftuiError: It cannot be opened.
    """
    if is_address(path) or is_dataset(Path(path)):
        return DATASET.formats[0].name
    if Path(path).is_dir():
        from tui.loaders.nsys.parquet_export import NSYS_FOLDER, is_parquetdir

        if is_parquetdir(Path(path)):
            return NSYS_FOLDER.formats[0].name
    source = InputFile.open(path)
    if file_kind(source.head) is not None:
        return ""
    confidence, loader = _most_confident(source)
    if confidence < _MIN_CONFIDENCE:
        return ""
    if loader is _database_loader():
        return _database_loader().claimed_format(source)
    if isinstance(loader, TextLogLoader):
        single = (TextLogLoader((text_format,)) for text_format in _text_formats())
        matching = [
            text_loader.formats[0].name
            for text_loader in single
            if text_loader.probe(source.head, source.name) >= _MIN_CONFIDENCE
        ]
        return matching[0] if len(matching) == 1 else _format_of_first_table(source.head)
    return loader.formats[0].name


def _format_of_first_table(head: bytes) -> str:
    """Return the format of the first table of a text that several formats may be able to read; empty if none can."""
    with suppress(ProftuiError):
        formats_of_tables = TextLogLoader(_text_formats()).load(InputFile.open("", stream=BytesIO(head)))["sessions"][
            "format"
        ]
        return str(formats_of_tables[0])
    return ""


def _most_confident(source: InputFile) -> tuple[float, Loader]:
    """Return the highest confidence, and the loader that has it; the first of several."""
    confidences: list[tuple[float, Loader]] = []
    for loaders in _loaders_by_content(source.head):
        confidences += [(loader.probe(source.head, source.name), loader) for loader in loaders()]
        best = max(confidences, key=itemgetter(0))
        if best[0] >= _CERTAIN:
            break
    return best


def _recognize(source: InputFile) -> Loader:
    """Return the loader of an input.

    Raises:
        ProftuiError: It is of no format that can be opened.
    """
    kind = file_kind(source.head)
    confidence, loader = _most_confident(source) if kind is None else (0.0, None)
    if loader is None or confidence <= 0:
        kind = kind or kind_by_name(source.name)
        if kind is not None:
            raise ProftuiError(f"{source.display_name}: this is {kind.title}, not supported", kind.hint)
        raise ProftuiError(
            f"{source.display_name}: no profile found: unknown binary file (it begins with {source.head[:8].hex(' ')})",
            FORMATS_HINT,
        )
    return loader
