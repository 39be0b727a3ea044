"""HTTP to the API server, through aiohttp.

| module | contents |
|---|---|
| `transport` | sends requests with credentials, time limits and retries, and raises `ApiError` |
| `request` | one request as a value |
| `session` | aiohttp's session and its connections |
| `answer` | the body of an answer, within a size limit |
| `network_errors` | describes failures of network and TLS for users |
"""
