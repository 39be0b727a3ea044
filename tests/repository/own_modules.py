"""A contract of import-linter: a room's own modules are imported only inside of the room.

pyproject.toml has the table. One contract of the type `protected` for each room would need
ten times as many lines.
"""

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

__all__ = ["OwnModules"]


class OwnModules(Contract):
    """Rooms with their own modules.

    Attributes:
        rooms: one line `package: module, module` for each room, with names relative to the package. A module
            stands for its submodules too.
    """

    type_name = "own_modules"
    rooms = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Find imports of own modules from outside of their rooms.

        Args:
            graph: all modules and their imports.
            verbose: ignored.

        Returns:
            The result. Its metadata has importer and imported module of each illegal import.

        Raises:
            ValueError: a line names a module that does not exist.
        """
        illegal: list[tuple[str, str]] = []
        rooms: list[str] = self.rooms  # type: ignore[assignment] # the field's value in an instance
        for line in rooms:
            room, _, names = line.partition(": ")
            inside = {room, *graph.find_descendants(room)}
            for name in names.split(", "):
                own = f"{room}.{name}"
                if own not in inside:
                    raise ValueError(f"contract {self.name!r}: there is no module {own}")
                for module in (own, *graph.find_descendants(own)):
                    importers = graph.find_modules_that_directly_import(module) - inside
                    illegal += [(importer, module) for importer in sorted(importers)]
        return ContractCheck(kept=not illegal, metadata={"illegal": illegal})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print the illegal imports.

        Args:
            check: result of `check`.
        """
        for importer, module in check.metadata["illegal"]:
            output.print_error(f"{importer} imports {module}, which is its room's own module")
