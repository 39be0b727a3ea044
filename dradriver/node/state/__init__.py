"""The prepared state of a node: the SQLite file that records its claims, and the locks of claims.

Modules that other rooms use:

- `store`: `StateStore`, which runs transactions in a thread of its own.
- `rows`: reads and writes the claims' rows inside a transaction.
- `records`: the recorded values of a claim, and the devices that the claim holds.
- `claim_states`: the states of a claim, and the allowed changes of state.
- `recorded_offers`: stores the devices and counter sets that the driver offers.
- `database`: opens the file, and sets a damaged file aside.
- `locks`: one lock for each claim, across processes.
- `byte_locks`: locks on bytes of a file.

Module that only this room uses:

- `tables`: the tables, their migrations, and the detection of damage.
"""
