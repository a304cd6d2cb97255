"""Reads XPlane and Perfetto files with Google's protobuf, with only the fields that the generated files have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = descriptor_pb2.FieldDescriptorProto
_MESSAGES: dict[str, tuple[tuple[str, int, str], ...]] = {
    "Stat": (("metadata_id", 1, "int"), ("uint64_value", 3, "int"), ("ref_value", 7, "int")),
    "Event": (("metadata_id", 1, "int"), ("offset_ps", 2, "int"), ("duration_ps", 3, "int"), ("stats", 4, "Stat")),
    "Line": (("id", 1, "int"), ("timestamp_ns", 3, "int"), ("events", 4, "Event")),
    "Plane": (("lines", 3, "Line"),),
    "Space": (("planes", 1, "Plane"),),
    "TrackEvent": (("type", 9, "int"), ("name_iid", 10, "int"), ("track_uuid", 11, "int")),
    "Packet": (("timestamp", 8, "int"), ("event", 11, "one TrackEvent")),
    "Trace": (("packet", 1, "Packet"),),
}  # fmt: skip
"""The fields of each message: name, number and type; messages are repeated unless the type begins with ``one``."""


def _message_class(name: str) -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="bench.proto", package="bench", syntax="proto3")
    for message_name, fields in _MESSAGES.items():
        message = file.message_type.add(name=message_name)
        for field_name, number, kind in fields:
            is_message = kind.removeprefix("one ") in _MESSAGES
            message.field.add(
                name=field_name,
                number=number,
                type=_Field.TYPE_MESSAGE if is_message else _Field.TYPE_INT64,
                type_name=f".bench.{kind.removeprefix('one ')}" if is_message else None,
                label=_Field.LABEL_REPEATED if kind in _MESSAGES else _Field.LABEL_OPTIONAL,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"bench.{name}"))


def read_xplane(path: str) -> int:
    """Read the events of an XSpace as columns."""
    space = _message_class("Space").FromString(Path(path).read_bytes())
    frames = []
    for plane in space.planes:
        for line in plane.lines:
            events = line.events
            count = len(events)
            columns = {
                "name": np.fromiter((event.metadata_id for event in events), np.int64, count),
                "start_ps": np.fromiter((event.offset_ps for event in events), np.int64, count),
                "duration_ps": np.fromiter((event.duration_ps for event in events), np.int64, count),
                "correlation": np.fromiter((event.stats[0].uint64_value for event in events), np.int64, count),
                "hlo_op": np.fromiter((event.stats[3].ref_value for event in events), np.int64, count),
            }
            frames.append(pl.DataFrame(columns))
    return pl.concat(frames).height


def read_perfetto(path: str) -> int:
    """Read the packets of a Perfetto trace as columns, without pairing begins and ends."""
    packets = _message_class("Trace").FromString(Path(path).read_bytes()).packet
    count = len(packets)
    columns = {
        "time": np.fromiter((packet.timestamp for packet in packets), np.int64, count),
        "type": np.fromiter((packet.event.type for packet in packets), np.int64, count),
        "name": np.fromiter((packet.event.name_iid for packet in packets), np.int64, count),
        "track": np.fromiter((packet.event.track_uuid for packet in packets), np.int64, count),
    }
    return pl.DataFrame(columns).height
