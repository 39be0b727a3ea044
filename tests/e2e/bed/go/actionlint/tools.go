//go:build tools

// Package tools names actionlint, which checks the workflows of hosted CI, so that go.mod keeps what it needs.
package tools

import (
	_ "github.com/rhysd/actionlint/cmd/actionlint"
)
