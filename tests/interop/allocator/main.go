// Command allocatororacle allocates claims as kube-scheduler's plugin does.
//
// It reads one JSON object a line: feature gates, a node, slices, classes, the claims that are allocated, and
// the claims of one pod. It writes one a line: "allocated" with the allocations, "node" when the claims do not
// fit on the node, "claim" when something is wrong with them, "slow" when the search was given up, "panic".
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

const (
	patience     = 2 * time.Second
	celCacheSize = 256
)

type question struct {
	Gates   map[string]bool              `json:"gates"`
	Node    *v1.Node                     `json:"node"`
	Slices  []*resourceapi.ResourceSlice `json:"slices"`
	Classes []*resourceapi.DeviceClass   `json:"classes"`
	Held    []*resourceapi.ResourceClaim `json:"held"`
	Claims  []*resourceapi.ResourceClaim `json:"claims"`
}

type answer struct {
	Verdict     string                         `json:"verdict"`
	Error       string                         `json:"error,omitempty"`
	Allocations []resourceapi.AllocationResult `json:"allocations,omitempty"`
}

type classes map[string]*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) { return nil, errors.New("not needed") }

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if class, ok := c[name]; ok {
		return class, nil
	}
	return nil, fmt.Errorf("device class %s does not exist", name)
}

// features are those that kube-scheduler derives from its gates.
func features(gates map[string]bool) structured.Features {
	return structured.Features{
		AdminAccess:             gates["DRAAdminAccess"],
		CompatibilityGroups:     gates["DRADeviceCompatibilityGroups"],
		ConsumableCapacity:      gates["DRAConsumableCapacity"],
		DerivedAttributes:       gates["DRADerivedAttributes"],
		DeviceBindingAndStatus:  gates["DRADeviceBindingConditions"],
		DeviceTaints:            gates["DRADeviceTaints"],
		FractionalCapacityRange: gates["DRAFractionalCapacityRange"],
		ListTypeAttributes:      gates["DRAListTypeAttributes"],
		OptionalNodeOperations:  gates["DRAOptionalNodeOperations"],
		PartitionableDevices:    gates["DRAPartitionableDevices"],
		PrioritizedList:         gates["DRAPrioritizedList"],
	}
}

// allocated is what kube-scheduler's plugin keeps of the claims in use.
func allocated(held []*resourceapi.ResourceClaim, shares bool) structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, claim := range held {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			if ptr.Deref(result.AdminAccess, false) {
				continue
			}
			id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
			if !shares || result.ShareID == nil {
				state.AllocatedDevices.Insert(id)
				continue
			}
			state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, result.ShareID))
			if result.ConsumedCapacity != nil {
				state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
			}
		}
	}
	return state
}

func decide(q question) (a answer) {
	defer func() {
		if r := recover(); r != nil {
			a = answer{Verdict: "panic", Error: fmt.Sprint(r)}
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	enabled := features(q.Gates)
	byName := classes{}
	for _, class := range q.Classes {
		byName[class.Name] = class
	}
	cache := cel.NewCache(celCacheSize, cel.Features{
		EnableConsumableCapacity: enabled.ConsumableCapacity,
		EnableListTypeAttributes: enabled.ListTypeAttributes,
	})
	state := allocated(q.Held, enabled.ConsumableCapacity)
	allocator, err := structured.NewAllocator(ctx, enabled, state, byName, q.Slices, cache)
	if err != nil {
		return answer{Verdict: "claim", Error: err.Error()}
	}
	found, err := allocator.Allocate(ctx, q.Node, q.Claims)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return answer{Verdict: "slow", Error: err.Error()}
	case errors.Is(err, structured.ErrFailedAllocationOnNode):
		return answer{Verdict: "node", Error: err.Error()}
	case err != nil:
		return answer{Verdict: "claim", Error: err.Error()}
	case found == nil:
		return answer{Verdict: "node"}
	}
	return answer{Verdict: "allocated", Allocations: found}
}

func main() {
	decoder := json.NewDecoder(bufio.NewReaderSize(os.Stdin, 1<<20))
	out := json.NewEncoder(os.Stdout)
	for decoder.More() {
		var q question
		err := decoder.Decode(&q)
		if err == nil {
			err = out.Encode(decide(q))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "allocatororacle:", err)
			os.Exit(1)
		}
	}
}
