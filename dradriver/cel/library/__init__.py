"""The functions that expressions can call.

- `formatting`: `format()` for texts.
- `lists`: functions on lists.
- `named_formats`: Kubernetes' named formats.
- `network`: IP addresses and CIDRs.
- `optional`: optional values.
- `quantity`: Kubernetes quantities.
- `semver`: semantic versions.
- `sets`: functions that treat lists as sets.
- `standard`: CEL's operators, sizes, texts and conversions.
- `strings`: functions on texts.
- `time`: timestamps and durations.
- `url`: URLs.
"""
