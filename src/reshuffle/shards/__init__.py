"""Rows in files: a folder of shards that numpy reads, larger than memory (docs/scale.md has the layout)."""

from reshuffle.shards.layout import (
    MANIFEST,
    VERSION,
    Manifest,
    Shard,
    StoredFile,
    is_shard_folder,
    read_manifest,
    write_manifest,
)
from reshuffle.shards.reader import Buffers, ShardReader
from reshuffle.shards.rows import Shards
from reshuffle.shards.writer import Block, ShardWriter

__all__ = [
    "MANIFEST",
    "VERSION",
    "Block",
    "Buffers",
    "Manifest",
    "Shard",
    "ShardReader",
    "ShardWriter",
    "Shards",
    "StoredFile",
    "is_shard_folder",
    "read_manifest",
    "write_manifest",
]
