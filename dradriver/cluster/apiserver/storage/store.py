"""The objects in memory, their revisions and their recent changes.

One counter numbers every write of every kind, as in etcd. A stored object never changes: a write stores a new
one. The changes of each kind are kept up to a number of writes and bytes. A request for older ones is answered
with 410.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from dradriver.cluster.apiserver.formats.values import Object, encode
from dradriver.cluster.apiserver.schema.decode import parse, wire
from dradriver.cluster.apiserver.schema.types import keeps_bytes
from dradriver.cluster.apiserver.status import StatusError, expired
from dradriver.cluster.apiserver.storage.persist import Database, Row

Key = tuple[str, str]
"""Namespace ("" for cluster-wide objects) and name."""


class Stored:
    """One object at one revision. It never changes.

    Attributes:
        storage: `group/plural`, the storage key of its kind.
        revision: the write that created it.
        schema: its struct, None for custom resources.
    """

    __slots__ = ("_body", "_key", "_object", "_raw", "revision", "schema", "storage")

    def __init__(self, storage: str, revision: int, obj: Object, schema: str | None) -> None:
        self.storage = storage
        self.revision = revision
        self.schema = schema
        metadata = obj["metadata"]
        self._key: Key = (metadata.get("namespace", ""), metadata["name"])
        self._object: Object | None = obj
        self._raw: bytes | None = None
        self._body: bytes | None = None

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self._key

    @property
    def object(self) -> Object:
        """The object, resourceVersion included."""
        if self._object is None:
            decoded: Object = parse(self.raw, self.schema)
            return decoded
        return self._object

    @property
    def raw(self) -> bytes:
        """The object as it is on the disk: JSON in which raw fields are as they were sent."""
        if self._raw is None:
            self._raw = encode(self._object)
        return self._raw

    @property
    def view(self) -> Object:
        """The object as clients see it: raw bytes compacted."""
        return wire(self.object) if self._keeps_bytes else self.object

    @property
    def body(self) -> bytes:
        """JSON of the view."""
        if self._body is None:
            body = encode(self.view) if self._keeps_bytes else self.raw
            if self._object is None:
                return body
            self._body = body
        return self._body

    @property
    def _keeps_bytes(self) -> bool:
        return self.schema is not None and keeps_bytes(self.schema)

    def pack(self) -> None:
        """Keep only the bytes, a sixth of the memory. Each later access decodes the object again."""
        self._raw = self.raw
        self._object = self._body = None


@dataclass(frozen=True, slots=True)
class StoredChange:
    """One write: the object before and after it; one of them may be None.

    `last` is a deleted object's last state, at the deleting revision.
    """

    revision: int
    before: Stored | None
    after: Stored | None
    last: Stored


Listener = Callable[[StoredChange], None]

_PAST_BYTES = 8 * 1024 * 1024
"""The maximum size in bytes of JSON of the recent changes of one kind."""
_DECODED = 64
"""Number of changes of a kind that stay decoded, for watches that have not read them yet."""


@dataclass
class _Shelf:
    """All objects of one storage."""

    objects: dict[Key, Stored] = field(default_factory=dict)
    past: deque[StoredChange] = field(default_factory=deque)
    past_bytes: int = 0
    forgotten: int = 0
    listeners: list[Listener] = field(default_factory=list)

    def remember(self, change: StoredChange, most: int) -> None:
        """Keep a change, and forget the oldest ones beyond `most` and `_PAST_BYTES`.

        Changes older than the newest `_DECODED` ones, which watches have read by now, are kept as bytes.
        """
        self.past.append(change)
        self.past_bytes += len(change.last.raw)
        if len(self.past) > _DECODED:
            read = self.past[-1 - _DECODED]
            for each in (read.before, None if read.after else read.last):
                if each is not None:
                    each.pack()
        while len(self.past) > most or self.past_bytes > _PAST_BYTES:
            oldest = self.past.popleft()
            self.past_bytes -= len(oldest.last.raw)
            self.forgotten = oldest.revision


class Store:
    """All objects.

    Every method runs to its end without yielding to the event loop: a read and the write after it are one step.
    """

    def __init__(self, database: Database, history: int, schema_of: Callable[[str], str | None]) -> None:
        self._database = database
        self._history = history
        self._schema_of = schema_of
        self._shelves: dict[str, _Shelf] = {}
        self._everything: list[Listener] = []
        self._oldest = 0
        self.revision = 1

    def restore(self, revision: int, rows: list[Row]) -> None:
        """Load the content of the database. There are no changes before it."""
        self.revision = self._oldest = revision
        for row in rows:
            schema = self._schema_of(row.storage)
            obj = parse(row.body, schema)
            stored = Stored(row.storage, row.revision, obj, schema)
            self._shelf(row.storage).objects[row.namespace, row.name] = stored

    def _shelf(self, storage: str) -> _Shelf:
        shelf = self._shelves.get(storage)
        if shelf is None:
            shelf = self._shelves[storage] = _Shelf(forgotten=self._oldest)
        return shelf

    def get(self, storage: str, namespace: str, name: str) -> Stored | None:
        """Return the current version of one object, or None."""
        return self._shelf(storage).objects.get((namespace, name))

    def all(self, storage: str) -> list[Stored]:
        """Return the current objects of a storage, by namespace and name."""
        objects = self._shelf(storage).objects
        return [objects[key] for key in sorted(objects)]

    def at(self, storage: str, revision: int) -> list[Stored]:
        """Return all objects of a storage as they were at a revision.

        Raises:
            StatusError: 410 when that revision is no longer kept.
        """
        shelf = self._shelf(storage)
        if revision < shelf.forgotten:
            raise expired("The provided continue parameter is too old to display a consistent list result.")
        objects = dict(shelf.objects)
        for change in reversed(shelf.past):
            if change.revision <= revision:
                break
            if change.before is None:
                objects.pop(change.last.key, None)
            else:
                objects[change.before.key] = change.before
        return [objects[key] for key in sorted(objects)]

    def since(self, storage: str, revision: int) -> list[StoredChange]:
        """Return every change of a storage after a revision.

        Raises:
            StatusError: 410 when some of these changes are no longer kept.
        """
        shelf = self._shelf(storage)
        if revision < shelf.forgotten:
            raise too_old(revision, shelf.forgotten)
        return [change for change in shelf.past if change.revision > revision]

    def put(self, storage: str, obj: Object, check: Callable[[Stored], None] = lambda _: None) -> Stored:
        """Store an object. The store sets its resourceVersion and owns it from now on.

        Args:
            storage: the storage key of its kind.
            obj: the object.
            check: raises a StatusError for an object that must not be stored; nothing has changed then.

        Raises:
            StatusError: 500 when the write to disk fails; nothing has changed then.
        """
        revision = self.revision + 1
        obj["metadata"]["resourceVersion"] = str(revision)
        stored = Stored(storage, revision, obj, self._schema_of(storage))
        check(stored)
        self._database.put(Row(storage, *stored.key, revision, stored.raw))
        shelf = self._shelf(storage)
        before = shelf.objects.get(stored.key)
        shelf.objects[stored.key] = stored
        self._publish(shelf, StoredChange(revision, before, stored, stored))
        return stored

    def delete(self, stored: Stored) -> Stored:
        """Remove an object. Return its last state at the deleting revision.

        Raises:
            StatusError: 500 when the write to disk fails.
        """
        revision = self.revision + 1
        metadata = {**stored.object["metadata"], "resourceVersion": str(revision)}
        last = Stored(stored.storage, revision, {**stored.object, "metadata": metadata}, stored.schema)
        self._database.delete(stored.storage, *stored.key, revision)
        shelf = self._shelf(stored.storage)
        del shelf.objects[stored.key]
        self._publish(shelf, StoredChange(revision, stored, None, last))
        return last

    def _publish(self, shelf: _Shelf, change: StoredChange) -> None:
        self.revision = change.revision
        shelf.remember(change, self._history)
        for listener in (*shelf.listeners, *self._everything):
            listener(change)

    def compact(self) -> None:
        """Forget all past changes now, as etcd's compaction does.

        Older watches and pages are then answered with 410.
        """
        self._oldest = self.revision
        for shelf in self._shelves.values():
            shelf.past.clear()
            shelf.past_bytes = 0
            shelf.forgotten = self.revision

    def listen(self, listener: Listener, storage: str | None = None) -> Callable[[], None]:
        """Call a function on every later change of one storage, or of all.

        Returns:
            A function that ends the calls.
        """
        listeners = self._everything if storage is None else self._shelf(storage).listeners
        listeners.append(listener)
        return lambda: listeners.remove(listener)


def too_old(revision: int, oldest: int) -> StatusError:
    """Return the 410 for a watch from a revision that is no longer kept."""
    return expired(f"too old resource version: {revision} ({oldest})")
