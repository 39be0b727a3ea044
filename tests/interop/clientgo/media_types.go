package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

func init() {
	register(map[string]check{
		"protobuf_writes_mean_the_same":                       protobufWrites,
		"protobuf_is_spoken_by_the_kubelet_and_the_scheduler": protobufNode,
		"protobuf_deletes_keep_their_options":                 protobufDeletes,
		"opaque_parameters_come_back_byte_by_byte":            opaque,
	})
}

// speaking makes a client as kubelet and scheduler configure theirs.
func speaking(e *env, contentType string) (kubernetes.Interface, error) {
	config := rest.CopyConfig(e.config)
	config.ContentType = contentType
	if contentType == runtime.ContentTypeProtobuf {
		config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	}
	return kubernetes.NewForConfig(config)
}

// rich is a slice with a value of every kind.
func rich(name string) *resourceapi.ResourceSlice {
	made := slice(name, "driver.example.com", name)
	made.Labels = map[string]string{"a": "b"}
	made.Spec.Devices = []resourceapi.Device{{
		Name: "device-0",
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"int": {IntValue: ptr.To(int64(-1) << 62)}, "bool": {BoolValue: ptr.To(false)},
			"string": {StringValue: ptr.To("ä<&>")}, "version": {VersionValue: ptr.To("1.2.3-rc.1+build")},
		},
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			"memory": {Value: resource.MustParse("80Gi"), RequestPolicy: &resourceapi.CapacityRequestPolicy{
				Default: ptr.To(resource.MustParse("1Gi")),
				ValidRange: &resourceapi.CapacityRequestPolicyRange{
					Min: ptr.To(resource.MustParse("1Gi")), Max: ptr.To(resource.MustParse("80Gi")), Step: ptr.To(resource.MustParse("1Gi")),
				},
			}},
			"fraction": {Value: resource.MustParse("1500m")},
		},
		AllowMultipleAllocations: ptr.To(true),
		Taints: []resourceapi.DeviceTaint{{Key: "example.com/slow", Value: "yes", Effect: resourceapi.DeviceTaintEffectNoSchedule,
			TimeAdded: ptr.To(metav1.Unix(1700000000, 0))}},
		BindingConditions: []string{"Attached"}, BindingFailureConditions: []string{"Failed"}, BindsToNode: ptr.To(true),
	}}
	return made
}

func protobufWrites(ctx context.Context, e *env) error {
	protobuf, err := speaking(e, runtime.ContentTypeProtobuf)
	if err != nil {
		return err
	}
	one, two := e.unique("json"), e.unique("protobuf")
	plain, err := e.client.ResourceV1().ResourceSlices().Create(ctx, rich(one), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	same, err := protobuf.ResourceV1().ResourceSlices().Create(ctx, rich(two), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	same.Spec.Pool.Name, same.Spec.NodeName = plain.Spec.Pool.Name, plain.Spec.NodeName
	if !equality.Semantic.DeepEqual(plain.Spec, same.Spec) {
		return fmt.Errorf("specs differ: %+v, %+v", plain.Spec, same.Spec)
	}
	for _, name := range []string{one, two} {
		if err := protobuf.ResourceV1().ResourceSlices().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	template := &resourceapi.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "t"},
		Spec:       resourceapi.ResourceClaimTemplateSpec{Spec: claim("").Spec},
	}
	if _, err := protobuf.ResourceV1().ResourceClaimTemplates(e.namespace).Create(ctx, template, metav1.CreateOptions{}); err != nil {
		return err
	}
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: e.unique("class")}, Spec: resourceapi.DeviceClassSpec{
		Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: "true"}}},
	}}
	if _, err := protobuf.ResourceV1().DeviceClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return err
	}
	return protobuf.ResourceV1().DeviceClasses().Delete(ctx, class.Name, metav1.DeleteOptions{})
}

func protobufNode(ctx context.Context, e *env) error {
	protobuf, err := speaking(e, runtime.ContentTypeProtobuf)
	if err != nil {
		return err
	}
	name := e.unique("node")
	node, err := protobuf.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	defer protobuf.CoreV1().Nodes().Delete(context.WithoutCancel(ctx), name, metav1.DeleteOptions{})
	node.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("8Gi")}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Unix(1700000000, 0)}}
	if node, err = protobuf.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if err := expect("memory", node.Status.Capacity.Memory().String(), "8Gi"); err != nil {
		return err
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "lease"}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: &name, LeaseDurationSeconds: ptr.To(int32(40)), RenewTime: ptr.To(metav1.NowMicro()),
	}}
	leased, err := protobuf.CoordinationV1().Leases(e.namespace).Create(ctx, lease, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if !leased.Spec.RenewTime.Equal(lease.Spec.RenewTime) && leased.Spec.RenewTime.UnixMicro() != lease.Spec.RenewTime.UnixMicro() {
		return fmt.Errorf("renewTime %v became %v", lease.Spec.RenewTime, leased.Spec.RenewTime)
	}
	if _, err := protobuf.CoreV1().Pods(e.namespace).Create(ctx, pod("p"), metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := bind(ctx, &env{client: protobuf, namespace: e.namespace}, "p", name); err != nil {
		return err
	}
	bound, err := protobuf.CoreV1().Pods(e.namespace).Get(ctx, "p", metav1.GetOptions{})
	if err != nil {
		return err
	}
	bound.Status.Phase = corev1.PodRunning
	if bound, err = protobuf.CoreV1().Pods(e.namespace).UpdateStatus(ctx, bound, metav1.UpdateOptions{}); err != nil {
		return err
	}
	made, err := protobuf.ResourceV1().ResourceClaims(e.namespace).Create(ctx, claim("one"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made.Status.Allocation = allocation(name)
	made.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: bound.Name, UID: bound.UID}}
	if made, err = protobuf.ResourceV1().ResourceClaims(e.namespace).UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(made.Status.Allocation.NodeSelector, allocation(name).NodeSelector) {
		return fmt.Errorf("allocation is %+v", made.Status.Allocation)
	}
	return expect("user of the claim", made.Status.ReservedFor[0].UID, bound.UID)
}

func protobufDeletes(ctx context.Context, e *env) error {
	protobuf, err := speaking(e, runtime.ContentTypeProtobuf)
	if err != nil {
		return err
	}
	if err := preconditions(ctx, &env{client: protobuf, namespace: e.namespace}); err != nil {
		return err
	}
	// Controllers delete through the metadata client too, which always asks for protobuf first.
	client, err := metadata.NewForConfig(metadata.ConfigFor(e.config))
	if err != nil {
		return err
	}
	if err := createMany(ctx, e); err != nil {
		return err
	}
	maps := client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(e.namespace)
	return maps.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}, metav1.ListOptions{})
}

// Go's encoder drops blanks and escapes <, > and & whatever the server does; all else must stay as it was sent.
func opaque(ctx context.Context, e *env) error {
	texts := []string{
		`{"z":1,"a":2,"m":{"z":null,"a":[]}}`,
		`{"big":123456789012345678901234567890,"float":1.0,"exponent":1e3,"small":1E-7,"zero":-0.0}`,
		`{"text":"<&> \u00e4\ud83d\ude00 \/ \u2028","escaped":"\u0041"}`,
		`{ "blank" : [ 1 , 2 ] }`,
		`{"same":1,"same":2}`,
	}
	for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		client, err := speaking(e, contentType)
		if err != nil {
			return err
		}
		for index, text := range texts {
			if err := roundTrip(ctx, e, client, contentType, index, text); err != nil {
				return fmt.Errorf("%s %s: %w", contentType, text, err)
			}
		}
	}
	return nil
}

func roundTrip(ctx context.Context, e *env, client kubernetes.Interface, contentType string, index int, text string) error {
	made := claim(fmt.Sprintf("claim-%d-%d", index, len(contentType)))
	made.Spec.Devices.Config = []resourceapi.DeviceClaimConfiguration{{DeviceConfiguration: resourceapi.DeviceConfiguration{
		Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: "driver.example.com", Parameters: runtime.RawExtension{Raw: []byte(text)}},
	}}}
	claims := client.ResourceV1().ResourceClaims(e.namespace)
	if _, err := claims.Create(ctx, made, metav1.CreateOptions{}); err != nil {
		return err
	}
	got, err := claims.Get(ctx, made.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	want, found := canonical([]byte(text)), canonical(got.Spec.Devices.Config[0].Opaque.Parameters.Raw)
	if !bytes.Equal(want, found) {
		return fmt.Errorf("came back as %s", found)
	}
	// The same bytes again are no change of the immutable spec.
	got.Labels = map[string]string{"a": "b"}
	_, err = claims.Update(ctx, got, metav1.UpdateOptions{})
	return err
}

func canonical(text []byte) []byte {
	var compacted, escaped bytes.Buffer
	if err := json.Compact(&compacted, text); err != nil {
		return text
	}
	json.HTMLEscape(&escaped, compacted.Bytes())
	return escaped.Bytes()
}
