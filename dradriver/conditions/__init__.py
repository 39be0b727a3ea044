"""The drivers' half of binding conditions (KEP-5007): attach what was allocated, tell, detach what is gone.

Law of this package: what there is to do for a claim is a pure function of the claim (`todo`), whose record of
attachments stands in its metadata: written before the hardware is touched, taken away after it was let go. The
loop (`controller`) does only what that function says, and nothing that the next process could not continue. A
failure condition is set only after the device is out of the scheduler's reach (`bad_devices`). On a node
(`on_node`) no record is kept: what was done to a device stays there, and the next process looks.
"""
