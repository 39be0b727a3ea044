"""The objects in memory, their revisions and their recent changes.

One counter numbers every write of every kind, as in etcd. A stored object never changes: a write stores a new
object. The changes of each kind are kept up to a maximum number of writes and bytes. If a request needs older
changes, it is answered with 410.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from dradriver.cluster.apiserver.formats.values import Object, encode
from dradriver.cluster.apiserver.schema.decode import compact_raw, parse
from dradriver.cluster.apiserver.schema.types import keeps_bytes
from dradriver.cluster.apiserver.status import StatusError, expired
from dradriver.cluster.apiserver.storage.persist import Database, Row

Key = tuple[str, str]
"""Namespace ("" for cluster-wide objects) and name."""


class Stored:
    """One object at one revision. It never changes.

    Attributes:
        storage: `group/plural`, the storage key of the object's kind.
        revision: number of the write that created this version.
        schema: name of the object's struct; None for custom resources.
    """

    __slots__ = ("_body", "_key", "_object", "_raw", "_view", "revision", "schema", "storage")

    def __init__(self, storage: str, revision: int, obj: Object, schema: str | None) -> None:
        self.storage = storage
        self.revision = revision
        self.schema = schema
        metadata = obj["metadata"]
        self._key: Key = (metadata.get("namespace", ""), metadata["name"])
        self._object: Object | None = obj
        self._raw: bytes | None = None
        self._view: Object | None = None
        self._body: bytes | None = None

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self._key

    @property
    def object(self) -> Object:
        """The object, including its resourceVersion."""
        if self._object is None:
            decoded: Object = parse(self.raw, self.schema)
            return decoded
        return self._object

    @property
    def raw(self) -> bytes:
        """The JSON of the object on disk. Raw fields are as they were sent."""
        if self._raw is None:
            self._raw = encode(self._object)
        return self._raw

    @property
    def view(self) -> Object:
        """The object in the form that clients get: raw bytes are compacted."""
        if not self._keeps_bytes:
            return self.object
        if self._object is None:
            packed: Object = compact_raw(self.object)
            return packed
        if self._view is None:
            self._view = compact_raw(self._object)
        return self._view

    @property
    def body(self) -> bytes:
        """The JSON of `view`."""
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
        """Keep only the bytes of the object, which need a sixth of the memory.

        Each later access decodes the object.
        """
        self._raw = self.raw
        self._object = self._view = self._body = None


@dataclass(frozen=True, slots=True)
class StoredChange:
    """One write: the object before and after it; one of them may be None.

    `last` is the last state of a deleted object, with the revision of the deletion.
    """

    revision: int
    before: Stored | None
    after: Stored | None
    last: Stored


Listener = Callable[[StoredChange], None]

_MAX_HISTORY_BYTES = 8 * 1024 * 1024
"""The maximum size in bytes of JSON of the recent changes of one kind."""
_DECODED_CHANGES = 64
"""Number of changes of a kind that stay decoded, for watches that have not read them yet."""


@dataclass
class _Collection:
    """All objects of one storage."""

    objects: dict[Key, Stored] = field(default_factory=dict)
    history: deque[StoredChange] = field(default_factory=deque)
    history_bytes: int = 0
    compacted_revision: int = 0
    listeners: list[Listener] = field(default_factory=list)

    def add_change(self, change: StoredChange, max_changes: int) -> None:
        """Store a change, and remove the oldest changes beyond `max_changes` and `_MAX_HISTORY_BYTES`.

        Watches have already read all but the newest `_DECODED_CHANGES` changes, so older changes are kept as
        bytes.
        """
        self.history.append(change)
        self.history_bytes += len(change.last.raw)
        if len(self.history) > _DECODED_CHANGES:
            read = self.history[-1 - _DECODED_CHANGES]
            for each in (read.before, None if read.after else read.last):
                if each is not None:
                    each.pack()
        while len(self.history) > max_changes or self.history_bytes > _MAX_HISTORY_BYTES:
            oldest = self.history.popleft()
            self.history_bytes -= len(oldest.last.raw)
            self.compacted_revision = oldest.revision


class Store:
    """All objects.

    Every method runs to its end without yielding to the event loop: no other code runs between a read and the
    write after it.
    """

    def __init__(self, database: Database, history: int, schema_of: Callable[[str], str | None]) -> None:
        self._database = database
        self._history = history
        self._schema_of = schema_of
        self._collections: dict[str, _Collection] = {}
        self._listeners: list[Listener] = []
        self._compacted_revision = 0
        self.revision = 1

    def restore(self, revision: int, rows: list[Row]) -> None:
        """Load the content of the database. Changes from before the restart are not available."""
        self.revision = self._compacted_revision = revision
        for row in rows:
            schema = self._schema_of(row.storage)
            obj = parse(row.body, schema)
            stored = Stored(row.storage, row.revision, obj, schema)
            self._get_collection(row.storage).objects[row.namespace, row.name] = stored

    def _get_collection(self, storage: str) -> _Collection:
        collection = self._collections.get(storage)
        if collection is None:
            collection = self._collections[storage] = _Collection(compacted_revision=self._compacted_revision)
        return collection

    def get(self, storage: str, namespace: str, name: str) -> Stored | None:
        """Return the current version of one object, or None."""
        return self._get_collection(storage).objects.get((namespace, name))

    def all(self, storage: str) -> list[Stored]:
        """Return the current objects of a storage, sorted by namespace and name."""
        objects = self._get_collection(storage).objects
        return [objects[key] for key in sorted(objects)]

    def at(self, storage: str, revision: int) -> list[Stored]:
        """Return all objects of a storage as they were at a revision.

        Raises:
            StatusError: 410 if this revision is no longer kept.
        """
        collection = self._get_collection(storage)
        if revision < collection.compacted_revision:
            raise expired("The provided continue parameter is too old to display a consistent list result.")
        objects = dict(collection.objects)
        for change in reversed(collection.history):
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
            StatusError: 410 if some of these changes are no longer kept.
        """
        collection = self._get_collection(storage)
        if revision < collection.compacted_revision:
            raise too_old_error(revision, collection.compacted_revision)
        return [change for change in collection.history if change.revision > revision]

    def put(self, storage: str, obj: Object, check: Callable[[Stored], None] = lambda _: None) -> Stored:
        """Store an object.

        The store sets the object's resourceVersion. The caller must not change the object afterwards.

        Args:
            storage: the storage key of the object's kind.
            obj: the object.
            check: raises a StatusError if the object must not be stored. In this case, nothing has changed.

        Raises:
            StatusError: 500 if the write to disk fails; nothing has changed.
        """
        revision = self.revision + 1
        obj["metadata"]["resourceVersion"] = str(revision)
        stored = Stored(storage, revision, obj, self._schema_of(storage))
        check(stored)
        self._database.put(Row(storage, *stored.key, revision, stored.raw))
        collection = self._get_collection(storage)
        before = collection.objects.get(stored.key)
        collection.objects[stored.key] = stored
        self._publish(collection, StoredChange(revision, before, stored, stored))
        return stored

    def delete(self, stored: Stored) -> Stored:
        """Remove an object. Return its last state, with the revision of the deletion.

        Raises:
            StatusError: 500 if the write to disk fails.
        """
        revision = self.revision + 1
        metadata = {**stored.object["metadata"], "resourceVersion": str(revision)}
        last = Stored(stored.storage, revision, {**stored.object, "metadata": metadata}, stored.schema)
        self._database.delete(stored.storage, *stored.key, revision)
        collection = self._get_collection(stored.storage)
        del collection.objects[stored.key]
        self._publish(collection, StoredChange(revision, stored, None, last))
        return last

    def _publish(self, collection: _Collection, change: StoredChange) -> None:
        self.revision = change.revision
        collection.add_change(change, self._history)
        for listener in (*collection.listeners, *self._listeners):
            listener(change)

    def compact(self) -> None:
        """Remove all past changes now, as etcd's compaction does.

        Watches and pages that need an older revision are then answered with 410.
        """
        self._compacted_revision = self.revision
        for collection in self._collections.values():
            collection.history.clear()
            collection.history_bytes = 0
            collection.compacted_revision = self.revision

    def listen(self, listener: Listener, storage: str | None = None) -> Callable[[], None]:
        """Call a function on every later change of one storage, or of all storages.

        Returns:
            A function that ends the calls.
        """
        listeners = self._listeners if storage is None else self._get_collection(storage).listeners
        listeners.append(listener)
        return lambda: listeners.remove(listener)


def too_old_error(revision: int, oldest: int) -> StatusError:
    """Return the 410 for a watch whose start revision is no longer kept."""
    return expired(f"too old resource version: {revision} ({oldest})")
