// Command celoracle answers device selectors as Kubernetes does.
//
// It reads one JSON object a line ({"expression": ..., "device": {...}}) and writes one a line:
// the verdict ("true", "false", "compile", "evaluate"), the error's text, and the runtime cost.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/cel"
)

type question struct {
	Expression string `json:"expression"`
	Device     struct {
		Driver                   string                                                    `json:"driver"`
		AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations"`
		Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes"`
		Capacity                 map[resourceapi.QualifiedName]resource.Quantity           `json:"capacity"`
	} `json:"device"`
}

type answer struct {
	Verdict string `json:"verdict"`
	Error   string `json:"error,omitempty"`
	Cost    uint64 `json:"cost"`
}

func decide(q question) (a answer) {
	defer func() {
		if r := recover(); r != nil {
			a = answer{Verdict: "panic", Error: fmt.Sprint(r)}
		}
	}()
	compiler := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})
	program := compiler.CompileCELExpression(q.Expression, cel.Options{DisableCostEstimation: true})
	if program.Error != nil {
		return answer{Verdict: "compile", Error: program.Error.Error()}
	}
	capacity := map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{}
	for name, value := range q.Device.Capacity {
		capacity[name] = resourceapi.DeviceCapacity{Value: value}
	}
	matches, details, err := program.DeviceMatches(context.Background(), cel.Device{
		Driver:                   q.Device.Driver,
		AllowMultipleAllocations: q.Device.AllowMultipleAllocations,
		Attributes:               q.Device.Attributes,
		Capacity:                 capacity,
	})
	if cost := details.ActualCost(); cost != nil {
		a.Cost = *cost
	}
	if err != nil {
		a.Verdict, a.Error = "evaluate", err.Error()
		return a
	}
	a.Verdict = fmt.Sprint(matches)
	return a
}

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout)
	decoder := json.NewDecoder(in)
	for decoder.More() {
		var q question
		if err := decoder.Decode(&q); err != nil {
			fmt.Fprintln(os.Stderr, "celoracle:", err)
			os.Exit(1)
		}
		if err := out.Encode(decide(q)); err != nil {
			fmt.Fprintln(os.Stderr, "celoracle:", err)
			os.Exit(1)
		}
	}
}
