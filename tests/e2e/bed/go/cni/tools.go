//go:build tools

// Package tools names the network plugins that the end-to-end tests run, so that go.mod keeps what they need.
package tools

import (
	_ "github.com/containernetworking/plugins/plugins/ipam/host-local"
	_ "github.com/containernetworking/plugins/plugins/main/ptp"
)
