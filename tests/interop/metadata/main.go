// Reads device metadata files with Kubernetes' own decoder and prints what it understood: one JSON object a file.
//
// Arguments: the files.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/dynamic-resource-allocation/api/metadata"
	"k8s.io/dynamic-resource-allocation/devicemetadata"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

type understood struct {
	Version      string
	Name         string
	Namespace    string
	UID          string
	Generation   int64
	PodClaimName string
	Requests     []metadata.DeviceMetadataRequest
	// Where containers of a claim, and of a claim made from a template, look for the file.
	ClaimPath    string
	TemplatePath string
}

func main() {
	for _, path := range os.Args[1:] {
		result, err := read(path)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
			os.Exit(1)
		}
		if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
			panic(err)
		}
	}
}

func read(path string) (*understood, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var found metadata.DeviceMetadata
	var kind schema.GroupVersionKind
	var invalid error
	err = devicemetadata.DecodeMetadataFromStream(
		json.NewDecoder(bytes.NewReader(data)), &found,
		devicemetadata.DecodeMetadataWithValidationResult(&invalid),
		devicemetadata.DecodeMetadataStoreGVKResult(&kind),
	)
	if err != nil {
		return nil, err
	}
	if invalid != nil {
		return nil, fmt.Errorf("invalid: %w", invalid)
	}
	result := &understood{
		Version: kind.Version, Name: found.Name, Namespace: found.Namespace, UID: string(found.UID),
		Generation: found.Generation, Requests: found.Requests,
	}
	if found.PodClaimName != nil {
		result.PodClaimName = *found.PodClaimName
	}
	if len(found.Requests) > 0 && len(found.Requests[0].Devices) > 0 {
		driver, request := found.Requests[0].Devices[0].Driver, found.Requests[0].Name
		result.ClaimPath = metadata.ResourceClaimFilePath(driver, found.Name, request)
		result.TemplatePath = metadata.ResourceClaimTemplateFilePath(driver, result.PodClaimName, request)
	}
	return result, nil
}
