//go:build tools

// Package tools names promtool, which checks and tests the rules of the chart, so that go.mod keeps what it needs.
package tools

import (
	_ "github.com/prometheus/prometheus/cmd/promtool"
)
