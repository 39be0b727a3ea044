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
)

type measured struct {
	Offered    int     `json:"offered"`
	Placed     int     `json:"placed"`
	Failure    string  `json:"failure"` // of the last pod that kube-scheduler would put off because of an error
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpu_seconds"`
	P50Ms      float64 `json:"p50_ms"`
	P99Ms      float64 `json:"p99_ms"`
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

func run(ctx context.Context, path string, limit int) (measured, error) {
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
	samples := make([]float64, 0, len(work.pods))
	usedBefore, start := cpu(), time.Now()
	found.LoadCPUS = usedBefore - idle
	for _, pod := range work.pods {
		before := time.Now()
		placed, err := scheduler.schedule(ctx, pod)
		switch {
		case err != nil:
			found.Failure = err.Error()
		case placed:
			found.Placed++
		}
		samples = append(samples, float64(time.Since(before).Nanoseconds())/1e6)
	}
	found.Seconds, found.CPUSeconds = time.Since(start).Seconds(), cpu()-usedBefore
	found.P50Ms, found.P99Ms = percentile(samples, 0.5), percentile(samples, 0.99)
	found.RSSMiB = peakMiB()
	return found, nil
}

func main() {
	limit := flag.Int("pods", 0, "how many of the pods, from the first on; 0 for all")
	flag.Parse()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	found, err := run(ctx, flag.Arg(0), *limit)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(found)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "kubescheduler:", err)
		os.Exit(1)
	}
}
