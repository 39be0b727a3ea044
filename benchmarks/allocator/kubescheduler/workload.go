package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	defaults "k8s.io/kubernetes/pkg/apis/resource/v1"
)

// namespace of all pods and claims.
const namespace = "default"

// workload is what `workloads/stream.py` writes.
type workload struct {
	gates   map[string]bool
	stay    int
	nodes   []*v1.Node
	slices  []resourceapi.ResourceSlice
	classes []*resourceapi.DeviceClass
	claims  []*resourceapi.ResourceClaim
	pods    []*v1.Pod
}

// readWorkload reads a file, of which each line is a word and a JSON object.
func readWorkload(path string, limit int) (*workload, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	work, reader := &workload{}, bufio.NewReaderSize(file, 1<<20)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return work, nil
		}
		if err != nil {
			return nil, err
		}
		word, text, _ := bytes.Cut(line, []byte(" "))
		if string(word) == "pod" && limit > 0 && len(work.pods) == limit {
			return work, nil
		}
		if err := work.add(string(word), text); err != nil {
			return nil, fmt.Errorf("%s: %w", word, err)
		}
	}
}

func (w *workload) add(word string, text []byte) error {
	switch word {
	case "settings":
		var read struct {
			Gates map[string]bool `json:"gates"`
			Stay  int             `json:"stay"`
		}
		err := json.Unmarshal(text, &read)
		w.gates, w.stay = read.Gates, read.Stay
		return err
	case "class":
		class := &resourceapi.DeviceClass{}
		w.classes = append(w.classes, class)
		return json.Unmarshal(text, class)
	case "node":
		node := &v1.Node{}
		w.nodes = append(w.nodes, node)
		return json.Unmarshal(text, &node.ObjectMeta)
	case "slice":
		w.slices = append(w.slices, resourceapi.ResourceSlice{})
		return json.Unmarshal(text, &w.slices[len(w.slices)-1])
	case "held":
		claim := &resourceapi.ResourceClaim{}
		w.claims = append(w.claims, claim)
		return json.Unmarshal(text, claim)
	case "pod":
		var spec resourceapi.ResourceClaimSpec
		err := json.Unmarshal(text, &spec)
		claim, pod := podOf(podName(len(w.pods)), spec)
		w.claims, w.pods = append(w.claims, claim), append(w.pods, pod)
		return err
	default:
		return errors.New("unknown kind of line")
	}
}

func podName(number int) string { return fmt.Sprintf("pod-%d", number) }

// podOf is a pod with one claim, which has the pod's name.
func podOf(name string, spec resourceapi.ResourceClaimSpec) (*resourceapi.ResourceClaim, *v1.Pod) {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), ResourceVersion: "1"}
	claim := &resourceapi.ResourceClaim{ObjectMeta: meta, Spec: spec}
	defaults.SetObjectDefaults_ResourceClaim(claim)
	pod := &v1.Pod{ObjectMeta: meta}
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "devices", ResourceClaimName: &claim.Name}}
	return claim, pod
}
