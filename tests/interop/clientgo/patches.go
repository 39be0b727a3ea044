package main

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	metav1apply "k8s.io/client-go/applyconfigurations/meta/v1"
	resourceapply "k8s.io/client-go/applyconfigurations/resource/v1"
)

func init() {
	register(map[string]check{
		"a_merge_patch_sets_and_removes":                  mergePatch,
		"a_json_patch_is_all_or_nothing":                  jsonPatch,
		"a_strategic_patch_means_what_client_go_computed": strategicPatch,
		"apply_conflicts_unless_forced":                   applyConflict,
		"apply_removes_what_is_no_longer_wanted":          applyRemoves,
		"apply_extracts_what_it_owns":                     applyExtract,
		"drivers_apply_their_own_device_status":           applyStatus,
	})
}

func mergePatch(ctx context.Context, e *env) error {
	maps := e.client.CoreV1().ConfigMaps(e.namespace)
	if _, err := maps.Create(ctx, configMap("m"), metav1.CreateOptions{}); err != nil {
		return err
	}
	got, err := maps.Patch(ctx, "m", types.MergePatchType, []byte(`{"data":{"key":null,"new":"x"}}`), metav1.PatchOptions{})
	if err != nil {
		return err
	}
	return expect("data", fmt.Sprint(got.Data), "map[new:x]")
}

func jsonPatch(ctx context.Context, e *env) error {
	maps := e.client.CoreV1().ConfigMaps(e.namespace)
	if _, err := maps.Create(ctx, configMap("m"), metav1.CreateOptions{}); err != nil {
		return err
	}
	bad := []byte(`[{"op":"add","path":"/data/new","value":"x"},{"op":"test","path":"/data/key","value":"other"}]`)
	_, err := maps.Patch(ctx, "m", types.JSONPatchType, bad, metav1.PatchOptions{})
	if err := refused("failing test", err, apierrors.IsInvalid); err != nil {
		return err
	}
	good := []byte(`[{"op":"test","path":"/data/key","value":"value"},{"op":"replace","path":"/data/key","value":"x"}]`)
	got, err := maps.Patch(ctx, "m", types.JSONPatchType, good, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	return expect("data", fmt.Sprint(got.Data), "map[key:x]")
}

// Two-way merge patches are how controllers and the kubelet write pods.
func strategicPatch(ctx context.Context, e *env) error {
	pods := e.client.CoreV1().Pods(e.namespace)
	old, err := pods.Create(ctx, pod("p"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	wanted := old.DeepCopy()
	wanted.Status = corev1.PodStatus{
		Phase: corev1.PodRunning,
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
			{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "Waiting"},
		},
		ContainerStatuses:     []corev1.ContainerStatus{{Name: "main", Image: "none", Ready: true}},
		ResourceClaimStatuses: []corev1.PodResourceClaimStatus{{Name: "device", ResourceClaimName: &old.Spec.ResourceClaims[0].Name}},
	}
	patched, err := patchStatus(ctx, e, old, wanted)
	if err != nil {
		return err
	}
	wanted.Status.QOSClass = patched.Status.QOSClass
	if !equality.Semantic.DeepEqual(patched.Status, wanted.Status) {
		return fmt.Errorf("status is %+v, want %+v", patched.Status, wanted.Status)
	}
	wanted.Status.Conditions = wanted.Status.Conditions[:1] // a condition less: a $patch: delete
	patched, err = patchStatus(ctx, e, patched, wanted)
	if err != nil {
		return err
	}
	return expect("number of conditions", len(patched.Status.Conditions), 1)
}

func patchStatus(ctx context.Context, e *env, old, wanted *corev1.Pod) (*corev1.Pod, error) {
	before, err := json.Marshal(corev1.Pod{Status: old.Status})
	if err != nil {
		return nil, err
	}
	// The UID is a precondition: only in the patch, so that it is always sent.
	after, err := json.Marshal(corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: wanted.UID}, Status: wanted.Status})
	if err != nil {
		return nil, err
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(before, after, corev1.Pod{})
	if err != nil {
		return nil, err
	}
	return e.client.CoreV1().Pods(old.Namespace).Patch(ctx, old.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
}

func applied(e *env, value string) *corev1apply.ConfigMapApplyConfiguration {
	return corev1apply.ConfigMap("m", e.namespace).WithData(map[string]string{"key": value})
}

func applyConflict(ctx context.Context, e *env) error {
	maps := e.client.CoreV1().ConfigMaps(e.namespace)
	apply := func(manager, value string, force bool) (*corev1.ConfigMap, error) {
		return maps.Apply(ctx, applied(e, value), metav1.ApplyOptions{FieldManager: manager, Force: force})
	}
	if _, err := apply("a", "1", false); err != nil {
		return err
	}
	_, err := apply("b", "2", false)
	if err := refused("another's field", err, apierrors.IsConflict); err != nil {
		return err
	}
	cause, found := apierrors.StatusCause(err, metav1.CauseTypeFieldManagerConflict)
	if !found || cause.Field != ".data.key" {
		return fmt.Errorf("cause is %+v", cause)
	}
	taken, err := apply("b", "2", true)
	if err != nil {
		return err
	}
	if err := expect("value", taken.Data["key"], "2"); err != nil {
		return err
	}
	_, err = apply("a", "1", false)
	return refused("what was taken by force", err, apierrors.IsConflict)
}

func applyRemoves(ctx context.Context, e *env) error {
	maps := e.client.CoreV1().ConfigMaps(e.namespace)
	options := metav1.ApplyOptions{FieldManager: "a"}
	if _, err := maps.Apply(ctx, applied(e, "1").WithData(map[string]string{"other": "x"}), options); err != nil {
		return err
	}
	same, err := maps.Apply(ctx, applied(e, "1"), options)
	if err != nil {
		return err
	}
	if err := expect("data", fmt.Sprint(same.Data), "map[key:1]"); err != nil {
		return err
	}
	again, err := maps.Apply(ctx, applied(e, "1"), options)
	if err != nil {
		return err
	}
	return expect("resourceVersion after the same apply", again.ResourceVersion, same.ResourceVersion)
}

func applyExtract(ctx context.Context, e *env) error {
	claims := e.client.ResourceV1().ResourceClaims(e.namespace)
	request := resourceapply.DeviceRequest().WithName("device").
		WithExactly(resourceapply.ExactDeviceRequest().WithDeviceClassName("class.example.com"))
	wanted := resourceapply.ResourceClaim("one", e.namespace).WithLabels(map[string]string{"a": "b"}).
		WithSpec(resourceapply.ResourceClaimSpec().WithDevices(resourceapply.DeviceClaim().WithRequests(request)))
	if _, err := claims.Apply(ctx, wanted, metav1.ApplyOptions{FieldManager: "mine"}); err != nil {
		return err
	}
	got, err := claims.Patch(ctx, "one", types.MergePatchType, []byte(`{"metadata":{"labels":{"c":"d"}}}`), metav1.PatchOptions{FieldManager: "other"})
	if err != nil {
		return err
	}
	owned, err := resourceapply.ExtractResourceClaim(got, "mine")
	if err != nil {
		return err
	}
	if len(owned.Labels) != 1 || owned.Labels["a"] != "b" {
		return fmt.Errorf("labels of mine: %v", owned.Labels)
	}
	if owned.Spec == nil || owned.Spec.Devices == nil || len(owned.Spec.Devices.Requests) != 1 ||
		*owned.Spec.Devices.Requests[0].Exactly.DeviceClassName != "class.example.com" {
		return fmt.Errorf("spec of mine: %+v", owned.Spec)
	}
	return nil
}

func applyStatus(ctx context.Context, e *env) error {
	claims := e.client.ResourceV1().ResourceClaims(e.namespace)
	created, err := claims.Create(ctx, claim("one"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	created.Status.Allocation = allocation("node-1")
	second := created.Status.Allocation.Devices.Results[0]
	second.Driver = "other.example.com"
	created.Status.Allocation.Devices.Results = append(created.Status.Allocation.Devices.Results, second)
	if _, err := claims.UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
		return err
	}
	apply := func(driver string, ready metav1.ConditionStatus) error {
		device := resourceapply.AllocatedDeviceStatus().WithDriver(driver).WithPool("node-1").WithDevice("device-0").
			WithConditions(metav1apply.Condition().WithType("Ready").WithStatus(ready).WithReason("Set").
				WithMessage("").WithLastTransitionTime(metav1.Now()))
		_, err := claims.ApplyStatus(ctx, resourceapply.ResourceClaim("one", e.namespace).
			WithStatus(resourceapply.ResourceClaimStatus().WithDevices(device)), metav1.ApplyOptions{FieldManager: driver})
		return err
	}
	for _, driver := range []string{"driver.example.com", "other.example.com", "driver.example.com"} {
		if err := apply(driver, metav1.ConditionTrue); err != nil {
			return err
		}
	}
	got, err := claims.Get(ctx, "one", metav1.GetOptions{})
	if err != nil {
		return err
	}
	return expect("number of device statuses", len(got.Status.Devices), 2)
}
