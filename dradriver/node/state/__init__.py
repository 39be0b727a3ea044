"""The prepared state of a node: the SQLite file that records its claims, and the locks of claims.

Modules:

- `store`: `StateStore`, transactions in a thread of its own.
- `rows`: access to the claims' rows inside a transaction.
- `records`: the recorded values of a claim.
- `claim_states`: the states of a claim, as a table.
- `recorded_offers`: the recorded devices and counter sets of the driver.
- `device_holds`: the devices that claims hold, for the conflict check.
- `database`: opens the file, and sets a damaged one aside.
- `tables`: the tables, their migrations, and the detection of damage.
- `locks`: one lock for each claim, across processes.
- `byte_locks`: locks on bytes of a file.
- `boot`: the ID of the current boot.
"""
