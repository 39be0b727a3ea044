// Reads CDI specs as container runtimes do, and prints the OCI configuration that they make of the devices asked for.
//
// Arguments: the folder of specs, then the qualified names of devices. Standard input: the OCI configuration to edit;
// none stands for an empty one. Anything wrong with any spec of the folder ends it with the reason.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: cdi FOLDER [DEVICE...]")
		os.Exit(2)
	}
	edited, err := inject(os.Args[1], os.Args[2:], os.Stdin)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(edited)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func inject(folder string, devices []string, config io.Reader) (*oci.Spec, error) {
	cache, err := cdi.NewCache(cdi.WithSpecDirs(folder), cdi.WithAutoRefresh(false))
	if err != nil {
		return nil, err
	}
	if err := broken(cache); err != nil {
		return nil, err
	}
	edited := &oci.Spec{}
	if err := json.NewDecoder(config).Decode(edited); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(devices) > 0 {
		if missing, err := cache.InjectDevices(edited, devices...); err != nil {
			return nil, fmt.Errorf("%w (not found: %v)", err, missing)
		}
	}
	return edited, nil
}

// broken joins what the cache found wrong with any file.
func broken(cache *cdi.Cache) error {
	var found []error
	for path, errs := range cache.GetErrors() {
		for _, err := range errs {
			found = append(found, fmt.Errorf("%s: %w", path, err))
		}
	}
	sort.Slice(found, func(i, j int) bool { return found[i].Error() < found[j].Error() })
	return errors.Join(found...)
}
