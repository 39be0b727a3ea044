"""The objects of resource.k8s.io and the rules that they obey.

- `attachments`: what slices and claims show about attachments (KEP-5007).
- `claim`: ResourceClaim, its requests, its allocation and its template.
- `counters`: shared counters and their consumption (KEP-4815, KEP-5963).
- `device`: devices with attributes, capacities and taints.
- `deviceclass`: DeviceClass.
- `opaque`: finds opaque configuration in API objects.
- `pool`: the pool that a driver publishes, and the rules that apply to all its slices together.
- `recorded_groups`: the compatibility groups that a claim's allocation records (KEP-5963).
- `rules`: the rules for a single device or counter set.
- `slice_reader`: reads many slices and stores equal parts once.
- `slices`: ResourceSlice.
- `taint_rule`: DeviceTaintRule (KEP-5055).
"""
