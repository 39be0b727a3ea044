//go:build tools

// Package tools names the etcd server that the end-to-end tests run, so that go.mod keeps what it needs.
package tools

import (
	_ "go.etcd.io/etcd/server/v3"
)
