// A minimal DRA driver on the Go helper library: the peer against which the embedded cluster is tried and the SDK is measured.
//
// It does the durable work of a careful driver: the claim is recorded on the disk before and after the hardware would be
// touched. The CDI spec is only renamed into its place: in the next boot the claim is prepared again, and the spec written.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	cdispec "tags.cncf.io/container-device-interface/specs-go"
)

type driver struct {
	name, stateFile, cdiDir string

	mu       sync.Mutex
	prepared map[types.UID]string // claim UID to its state
}

// PrepareResourceClaims answers every claim of this driver.
func (d *driver) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		results[claim.UID] = d.prepare(claim)
	}
	return results, nil
}

func (d *driver) prepare(claim *resourceapi.ResourceClaim) kubeletplugin.PrepareResult {
	if err := d.record(claim.UID, "preparing"); err != nil {
		return kubeletplugin.PrepareResult{Err: err}
	}
	kind := d.name + "/claim"
	spec := cdispec.Spec{Version: "0.3.0", Kind: kind}
	var devices []kubeletplugin.Device
	for index, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver != d.name {
			continue
		}
		name := fmt.Sprintf("claim-%s-%d", claim.UID, index)
		spec.Devices = append(spec.Devices, cdispec.Device{Name: name, ContainerEdits: cdispec.ContainerEdits{
			Env: []string{"PEER_DEVICE=" + result.Device},
		}})
		devices = append(devices, kubeletplugin.Device{
			Requests: []string{result.Request}, PoolName: result.Pool, DeviceName: result.Device,
			CDIDeviceIDs: []string{kind + "=" + name},
		})
	}
	content, err := json.Marshal(spec)
	if err == nil {
		err = writeFile(d.specFile(claim.UID), content, false)
	}
	if err == nil {
		err = d.record(claim.UID, "prepared")
	}
	return kubeletplugin.PrepareResult{Devices: devices, Err: err}
}

// UnprepareResourceClaims forgets claims; unknown ones are fine.
func (d *driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := map[types.UID]error{}
	for _, claim := range claims {
		err := os.Remove(d.specFile(claim.UID))
		if err == nil || os.IsNotExist(err) {
			err = d.record(claim.UID, "")
		}
		results[claim.UID] = err
	}
	return results, nil
}

// HandleError reports what went wrong in the background.
func (d *driver) HandleError(_ context.Context, err error, msg string) {
	fmt.Fprintf(os.Stderr, "%s: %v\n", msg, err)
}

// WatchHealthStatus declines: this driver knows nothing about health.
func (d *driver) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}

func (d *driver) specFile(uid types.UID) string {
	return filepath.Join(d.cdiDir, fmt.Sprintf("%s-claim_%s.json", d.name, uid))
}

func (d *driver) record(uid types.UID, state string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if state == "" {
		delete(d.prepared, uid)
	} else {
		d.prepared[uid] = state
	}
	content, err := json.Marshal(d.prepared)
	if err != nil {
		return err
	}
	return writeFile(d.stateFile, content, true)
}

func writeFile(path string, content []byte, durable bool) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	if _, err = file.Write(content); err == nil && durable {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil || !durable {
		return err
	}
	directory, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer directory.Close()
	return directory.Sync()
}

func run() error {
	name := flag.String("driver", "peer.example.com", "driver name")
	node := flag.String("node-name", "", "node name")
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig file")
	plugins := flag.String("plugins-dir", "", "the kubelet's plugins folder")
	registry := flag.String("registry-dir", "", "the kubelet's plugins_registry folder")
	cdi := flag.String("cdi-dir", "", "folder of CDI specs")
	count := flag.Int("devices", 8, "number of devices")
	serialize := flag.Bool("serialize", true, "one call of the kubelet at a time, which is the library's default")
	flag.Parse()

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 1000, 1000 // the default of 5 a second would be all that is measured
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	data := filepath.Join(*plugins, *name)
	if err := os.MkdirAll(data, 0o750); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()

	plugin := &driver{name: *name, stateFile: filepath.Join(data, "state.json"), cdiDir: *cdi, prepared: map[types.UID]string{}}
	helper, err := kubeletplugin.Start(ctx, plugin,
		kubeletplugin.DriverName(*name), kubeletplugin.NodeName(*node), kubeletplugin.KubeClient(client),
		kubeletplugin.PluginDataDirectoryPath(data), kubeletplugin.RegistrarDirectoryPath(*registry),
		kubeletplugin.CDIDirectory(*cdi), kubeletplugin.Serialize(*serialize),
	)
	if err != nil {
		return err
	}
	defer helper.Stop()

	var devices []resourceapi.Device
	for index := range *count {
		number := int64(index)
		devices = append(devices, resourceapi.Device{
			Name:       fmt.Sprintf("device-%d", index),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"index": {IntValue: &number}},
		})
	}
	err = helper.PublishResources(ctx, resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{
		*node: {Slices: []resourceslice.Slice{{Devices: devices}}},
	}})
	if err != nil {
		return err
	}
	fmt.Println("running")
	<-ctx.Done()
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
