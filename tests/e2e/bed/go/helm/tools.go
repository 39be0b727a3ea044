//go:build tools

// Package tools names Helm, which the checks of the chart run, so that go.mod keeps what it needs.
package tools

import (
	_ "helm.sh/helm/v4/cmd/helm"
)
