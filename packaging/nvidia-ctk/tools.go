//go:build tools

// Package tools names nvidia-ctk, which our edits of containers are compared with, and the hook that our image ships,
// so that go.mod keeps what they need.
package tools

import (
	_ "github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-cdi-hook"
	_ "github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-ctk"
)
