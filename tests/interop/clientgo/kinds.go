package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
)

func init() {
	register(map[string]check{
		"a_custom_kind_is_used_through_the_dynamic_client": customKind,
		"discovery_maps_kinds_to_resources":                mapping,
		"discovery_tells_what_each_resource_can":           preferred,
		"metadata_alone_is_listed_and_watched":             metadataOnly,
	})
}

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

func object(fields map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: fields}
}

func definition(group string) *unstructured.Unstructured {
	open := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	return object(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "widgets." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced",
			"names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": []any{"wg"}},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "properties": map[string]any{"spec": open, "status": open},
				}},
			}},
		},
	})
}

func established(found *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(found.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(each any) bool {
		condition := each.(map[string]any)
		return condition["type"] == "Established" && condition["status"] == "True"
	})
}

func customKind(ctx context.Context, e *env) error {
	client, err := dynamic.NewForConfig(e.config)
	if err != nil {
		return err
	}
	group := e.namespace + ".example.com"
	if _, err := client.Resource(definitions).Create(ctx, definition(group), metav1.CreateOptions{}); err != nil {
		return err
	}
	defer client.Resource(definitions).Delete(context.WithoutCancel(ctx), "widgets."+group, metav1.DeleteOptions{})
	err = eventually(ctx, "the definition is established", func() (bool, error) {
		found, err := client.Resource(definitions).Get(ctx, "widgets."+group, metav1.GetOptions{})
		return err == nil && established(found), err
	})
	if err != nil {
		return err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(e.client.Discovery()))
	mapped, err := mapper.RESTMapping(schema.GroupKind{Group: group, Kind: "Widget"})
	if err != nil {
		return err
	}
	return useWidgets(ctx, client, mapped.Resource, e.namespace)
}

func useWidgets(ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource, namespace string) error {
	widgets := client.Resource(resource).Namespace(namespace)
	informer := dynamicinformer.NewFilteredDynamicInformer(client, resource, namespace, 0, cache.Indexers{}, nil).Informer()
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return fmt.Errorf("the informer did not sync")
	}
	made, err := widgets.Create(ctx, object(map[string]any{
		"apiVersion": resource.GroupVersion().String(), "kind": "Widget", "metadata": map[string]any{"name": "w"},
		"spec": map[string]any{"size": int64(3), "big": int64(1) << 60}, "status": map[string]any{"ignored": true},
	}), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if _, found, _ := unstructured.NestedFieldNoCopy(made.Object, "status"); found {
		return fmt.Errorf("create wrote status")
	}
	if big, _, _ := unstructured.NestedInt64(made.Object, "spec", "big"); big != int64(1)<<60 {
		return fmt.Errorf("an integer became %v", big)
	}
	if made, err = widgets.Patch(ctx, "w", types.MergePatchType, []byte(`{"spec":{"size":4}}`), metav1.PatchOptions{}); err != nil {
		return err
	}
	if err := expect("generation after a change of spec", made.GetGeneration(), 2); err != nil {
		return err
	}
	_ = unstructured.SetNestedField(made.Object, "yes", "status", "ready")
	if made, err = widgets.UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if err := expect("generation after a change of status", made.GetGeneration(), 2); err != nil {
		return err
	}
	applied := object(map[string]any{
		"apiVersion": resource.GroupVersion().String(), "kind": "Widget", "metadata": map[string]any{"name": "w"},
		"spec": map[string]any{"color": "red"},
	})
	if _, err := widgets.Apply(ctx, "w", applied, metav1.ApplyOptions{FieldManager: "check"}); err != nil {
		return err
	}
	_, err = widgets.Patch(ctx, "w", types.StrategicMergePatchType, []byte(`{}`), metav1.PatchOptions{})
	if err := refused("strategic patch of a custom kind", err, apierrors.IsUnsupportedMediaType); err != nil {
		return err
	}
	return eventually(ctx, "the informer sees it all", func() (bool, error) {
		found, exists, err := informer.GetStore().GetByKey(namespace + "/w")
		if err != nil || !exists {
			return false, err
		}
		spec, _, _ := unstructured.NestedMap(found.(*unstructured.Unstructured).Object, "spec")
		return spec["size"] == int64(4) && spec["color"] == "red", nil
	})
}

func mapping(ctx context.Context, e *env) error {
	cached := memory.NewMemCacheClient(e.client.Discovery())
	mapper := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, func(string) {})
	for short, want := range map[string]string{
		"po": "pods", "ns": "namespaces", "no": "nodes", "cm": "configmaps", "resourceclaim": "resourceclaims",
		"resourceslices": "resourceslices", "deviceclasses.resource.k8s.io": "deviceclasses", "leases": "leases",
	} {
		resource, group, _ := strings.Cut(short, ".")
		found, err := mapper.ResourceFor(schema.GroupVersionResource{Group: group, Resource: resource})
		if err != nil {
			return err
		}
		if err := expect(short, found.Resource, want); err != nil {
			return err
		}
	}
	for kind, scope := range map[string]string{"ResourceClaim": "namespace", "ResourceSlice": "root", "DeviceClass": "root", "DeviceTaintRule": "root"} {
		found, err := mapper.RESTMapping(schema.GroupKind{Group: resourceapi.GroupName, Kind: kind}, "v1")
		if err != nil {
			return err
		}
		if err := expect("scope of "+kind, string(found.Scope.Name()), scope); err != nil {
			return err
		}
	}
	return nil
}

func preferred(ctx context.Context, e *env) error {
	version, err := e.client.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	if err := expect("major version", version.Major, "1"); err != nil {
		return err
	}
	lists, err := e.client.Discovery().ServerPreferredResources()
	if err != nil {
		return err
	}
	for _, list := range lists {
		for _, each := range list.APIResources {
			if each.Name == "resourceclaims" {
				wanted := []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
				verbs := slices.Sorted(slices.Values(each.Verbs))
				if !slices.Equal(verbs, wanted) {
					return fmt.Errorf("verbs are %v", verbs)
				}
				return nil
			}
		}
	}
	return fmt.Errorf("there are no resourceclaims in %v", lists)
}

func metadataOnly(ctx context.Context, e *env) error {
	client, err := metadata.NewForConfig(e.config)
	if err != nil {
		return err
	}
	if err := createMany(ctx, e); err != nil {
		return err
	}
	maps := client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(e.namespace)
	list, err := maps.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=m-03"})
	if err != nil {
		return err
	}
	if len(list.Items) != 1 || list.Items[0].Name != "m-03" {
		return fmt.Errorf("the list has %d objects", len(list.Items))
	}
	watching, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return err
	}
	defer watching.Stop()
	if err := maps.Delete(ctx, "m-04", metav1.DeleteOptions{}); err != nil {
		return err
	}
	gone, err := next[*metav1.PartialObjectMetadata](ctx, watching, watch.Deleted)
	if err != nil {
		return err
	}
	return expect("deleted object", gone.Name, "m-04")
}
