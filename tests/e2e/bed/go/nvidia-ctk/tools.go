//go:build tools

// Package tools names nvidia-ctk, which our edits of containers are compared with, so that go.mod keeps what it needs.
package tools

import (
	_ "github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-ctk"
)
