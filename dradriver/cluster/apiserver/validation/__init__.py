"""The rules of the served kinds, as Kubernetes 1.37 checks and words them.

Pure functions from objects to causes; nothing is changed here. Paths and messages are the real
server's, so that a client that greps them works on both.
"""
