// Command kubescheduler schedules the pods of a workload with kube-scheduler's DynamicResources plugin.
//
// It reads a workload from the file that it is given and writes what it measured, as JSON. The plugin, its DRA
// manager, its claim cache and the scheduler's parallelizer are Kubernetes' own; `scheduler.go` drives them as
// kube-scheduler does. There is no API server and no other plugin: a claim is in use once it is reserved.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"sort"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

type measured struct {
	Offered    int     `json:"offered"`
	Placed     int     `json:"placed"`
	Failure    string  `json:"failure"` // of the last pod that kube-scheduler would put off because of an error
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpu_seconds"`
	P50Ms      float64 `json:"p50_ms"`
	P99Ms      float64 `json:"p99_ms"`
	MaxMs      float64 `json:"max_ms"`
	FirstS     float64 `json:"first_seconds"`
	LoadS      float64 `json:"load_seconds"`
	LoadCPUS   float64 `json:"load_cpu_seconds"`
	RSSMiB     float64 `json:"rss_mib"`
	Go         string  `json:"go"`
}

// cpu is what the process has used so far, of all cores together.
func cpu() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

func peakMiB() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return float64(usage.Maxrss) / 1024
}

func percentile(samples []float64, share float64) float64 {
	if len(samples) == 0 {
		return 0
	}
	sort.Float64s(samples)
	return samples[int(share*float64(len(samples)-1))]
}

// choice is where a pod was placed; without a node it was not.
type choice struct {
	Node    string                                      `json:"node"`
	Devices []resourceapi.DeviceRequestAllocationResult `json:"devices"`
}

func run(ctx context.Context, path string, limit int, choices *json.Encoder) (measured, error) {
	begun, idle := time.Now(), cpu()
	work, err := readWorkload(path, limit)
	if err != nil {
		return measured{}, err
	}
	scheduler, err := newScheduler(ctx, work)
	if err != nil {
		return measured{}, err
	}
	runtime.GC()
	found := measured{Offered: len(work.pods), LoadS: time.Since(begun).Seconds(), Go: runtime.Version()}
	found.LoadCPUS = cpu() - idle
	samples := make([]float64, 0, len(work.pods))
	for number, pod := range work.pods {
		usedBefore, before := cpu(), time.Now()
		if leaving := number - work.stay; work.stay > 0 && leaving >= 0 {
			scheduler.leave(podName(leaving))
		}
		node, err := scheduler.schedule(ctx, pod)
		took := time.Since(before).Seconds()
		found.Seconds += took
		found.CPUSeconds += cpu() - usedBefore
		samples = append(samples, took*1e3)
		if err != nil {
			found.Failure = err.Error()
		} else if node != "" {
			found.Placed++
		}
		if choices != nil {
			if err := write(choices, scheduler, pod, node); err != nil {
				return measured{}, err
			}
		}
	}
	found.FirstS = samples[0] / 1e3
	found.P50Ms, found.P99Ms = percentile(samples, 0.5), percentile(samples, 0.99)
	found.MaxMs = samples[len(samples)-1]
	found.RSSMiB = peakMiB()
	return found, nil
}

func write(choices *json.Encoder, scheduler *scheduler, pod *v1.Pod, node string) error {
	allocation, err := scheduler.allocation(pod)
	if err != nil {
		return err
	}
	chosen := choice{Node: node}
	if allocation != nil {
		chosen.Devices = allocation.Devices.Results
	}
	return choices.Encode(chosen)
}

func main() {
	limit := flag.Int("pods", 0, "how many of the pods, from the first on; 0 for all")
	choices := flag.Bool("choices", false, "write each pod's node and devices first")
	flag.Parse()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	output := json.NewEncoder(os.Stdout)
	var each *json.Encoder
	if *choices {
		each = output
	}
	found, err := run(ctx, flag.Arg(0), *limit, each)
	if err == nil {
		err = output.Encode(found)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "kubescheduler:", err)
		os.Exit(1)
	}
}
