"""HTTP to the API server, through aiohttp.

| module | contents |
|---|---|
| `transport` | requests with credentials, time limits and retries; errors as `ApiError` |
| `request` | one request as a value |
| `session` | aiohttp's session and its connections |
| `answer` | the body of an answer, within a size limit |
| `network_errors` | failures of network and TLS as messages for users |
"""
