//go:build tools

// Package tools names h2spec, which our gRPC server is held against, so that go.mod keeps what it needs.
package tools

import (
	_ "github.com/summerwind/h2spec/cmd/h2spec"
)
