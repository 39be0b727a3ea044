package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	defaults "k8s.io/kubernetes/pkg/apis/resource/v1"
)

// file is a workload as the benchmark writes it: the slices of one node, in which a placeholder stands for the
// node's name, and the claims of the pods, by kind.
type file struct {
	Gates       map[string]bool                          `json:"gates"`
	Nodes       []string                                 `json:"nodes"`
	Placeholder string                                   `json:"placeholder"`
	Slices      []json.RawMessage                        `json:"slices"`
	Classes     []*resourceapi.DeviceClass               `json:"classes"`
	Claims      map[string]resourceapi.ResourceClaimSpec `json:"claims"`
	Pods        []string                                 `json:"pods"`
}

type workload struct {
	gates   map[string]bool
	nodes   []*v1.Node
	slices  []resourceapi.ResourceSlice
	classes []*resourceapi.DeviceClass
	claims  []*resourceapi.ResourceClaim
	pods    []*v1.Pod
}

func readWorkload(path string, limit int) (*workload, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var read file
	if err := json.Unmarshal(raw, &read); err != nil {
		return nil, err
	}
	work := &workload{gates: read.Gates, classes: read.Classes}
	for _, name := range read.Nodes {
		work.nodes = append(work.nodes, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		for _, template := range read.Slices {
			var slice resourceapi.ResourceSlice
			text := strings.ReplaceAll(string(template), read.Placeholder, name)
			if err := json.Unmarshal([]byte(text), &slice); err != nil {
				return nil, err
			}
			work.slices = append(work.slices, slice)
		}
	}
	if limit > 0 && limit < len(read.Pods) {
		read.Pods = read.Pods[:limit]
	}
	for number, kind := range read.Pods {
		claim, pod := podOf(fmt.Sprintf("pod-%d", number), read.Claims[kind])
		work.claims, work.pods = append(work.claims, claim), append(work.pods, pod)
	}
	return work, nil
}

// podOf is a pod with one claim, which has the pod's name.
func podOf(name string, spec resourceapi.ResourceClaimSpec) (*resourceapi.ResourceClaim, *v1.Pod) {
	meta := metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), ResourceVersion: "1"}
	claim := &resourceapi.ResourceClaim{ObjectMeta: meta, Spec: *spec.DeepCopy()}
	defaults.SetObjectDefaults_ResourceClaim(claim)
	pod := &v1.Pod{ObjectMeta: meta}
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "devices", ResourceClaimName: &claim.Name}}
	return claim, pod
}
