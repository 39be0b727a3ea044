package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
)

func init() {
	register(map[string]check{
		"an_object_is_created_read_updated_and_deleted":    lifecycle,
		"refusals_have_their_reasons":                      reasons,
		"a_stale_update_is_a_conflict_that_can_be_retried": conflict,
		"status_is_updated_apart_from_spec":                status,
		"lists_come_in_consistent_pages":                   pages,
		"a_list_of_an_old_revision_is_exact":               exact,
		"an_expired_continue_token_can_be_gone_on_from":    expiredPage,
		"deletes_keep_their_preconditions":                 preconditions,
		"a_selection_is_deleted_at_once":                   deleteCollection,
		"finalizers_hold_an_object":                        finalizers,
		"dependents_go_with_their_owner":                   garbage,
		"a_dry_run_stores_nothing":                         dryRun,
		"unknown_fields_are_refused_or_warned_of":          fieldValidation,
	})
}

func lifecycle(ctx context.Context, e *env) error {
	claims := e.client.ResourceV1().ResourceClaims(e.namespace)
	created, err := claims.Create(ctx, claim("one"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if created.UID == "" || created.ResourceVersion == "" || created.CreationTimestamp.IsZero() {
		return fmt.Errorf("the server set no UID, resourceVersion or creationTimestamp: %+v", created.ObjectMeta)
	}
	if exactly := created.Spec.Devices.Requests[0].Exactly; exactly.AllocationMode != resourceapi.DeviceAllocationModeExactCount || exactly.Count != 1 {
		return fmt.Errorf("not defaulted: %+v", exactly)
	}
	got, err := claims.Get(ctx, "one", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(got, created) {
		return fmt.Errorf("get and create differ: %+v, %+v", got, created)
	}
	got.Labels = map[string]string{"a": "b"}
	updated, err := claims.Update(ctx, got, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	if updated.ResourceVersion == got.ResourceVersion {
		return fmt.Errorf("an update kept the resourceVersion")
	}
	list, err := claims.List(ctx, metav1.ListOptions{LabelSelector: "a=b"})
	if err != nil {
		return err
	}
	if err := expect("number of claims", len(list.Items), 1); err != nil {
		return err
	}
	if err := claims.Delete(ctx, "one", metav1.DeleteOptions{}); err != nil {
		return err
	}
	_, err = claims.Get(ctx, "one", metav1.GetOptions{})
	return refused("get after delete", err, apierrors.IsNotFound)
}

func reasons(ctx context.Context, e *env) error {
	maps := e.client.CoreV1().ConfigMaps(e.namespace)
	if _, err := maps.Create(ctx, configMap("m"), metav1.CreateOptions{}); err != nil {
		return err
	}
	return all(
		func() error {
			_, err := maps.Create(ctx, configMap("m"), metav1.CreateOptions{})
			return refused("second create", err, apierrors.IsAlreadyExists)
		},
		func() error {
			_, err := maps.Create(ctx, configMap("Not_A_Name"), metav1.CreateOptions{})
			return refused("bad name", err, apierrors.IsInvalid)
		},
		func() error {
			_, err := maps.Get(ctx, "none", metav1.GetOptions{})
			if err := refused("get of nothing", err, apierrors.IsNotFound); err != nil {
				return err
			}
			details := err.(apierrors.APIStatus).Status().Details
			return expect("details", fmt.Sprint(details.Kind, details.Name), "configmapsnone")
		},
		func() error {
			_, err := e.client.CoreV1().ConfigMaps("no-such-namespace").Create(ctx, configMap("m"), metav1.CreateOptions{})
			return refused("create in a missing namespace", err, apierrors.IsNotFound)
		},
		func() error {
			wrong := claim("wrong")
			wrong.Spec.Devices.Requests[0].Exactly = nil
			_, err := e.client.ResourceV1().ResourceClaims(e.namespace).Create(ctx, wrong, metav1.CreateOptions{})
			if err := refused("claim without a choice", err, apierrors.IsInvalid); err != nil {
				return err
			}
			causes := err.(apierrors.APIStatus).Status().Details.Causes
			if len(causes) == 0 || !strings.HasPrefix(causes[0].Field, "spec.devices.requests[0]") {
				return fmt.Errorf("causes do not name the field: %+v", causes)
			}
			return nil
		},
	)
}

func conflict(ctx context.Context, e *env) error {
	maps := e.client.CoreV1().ConfigMaps(e.namespace)
	first, err := maps.Create(ctx, configMap("m"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	second := first.DeepCopy()
	second.Data["by"] = "another"
	if _, err := maps.Update(ctx, second, metav1.UpdateOptions{}); err != nil {
		return err
	}
	first.Data["by"] = "me"
	_, err = maps.Update(ctx, first, metav1.UpdateOptions{})
	if err := refused("stale update", err, apierrors.IsConflict); err != nil {
		return err
	}
	tries := 0
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if tries++; tries > 1 {
			if first, err = maps.Get(ctx, "m", metav1.GetOptions{}); err != nil {
				return err
			}
		}
		first.Data["by"] = "me"
		_, err := maps.Update(ctx, first, metav1.UpdateOptions{})
		return err
	})
}

func status(ctx context.Context, e *env) error {
	claims := e.client.ResourceV1().ResourceClaims(e.namespace)
	created, err := claims.Create(ctx, claim("one"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	created.Status.Allocation = allocation("node-1")
	created.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "pod", UID: "1"}}
	created.Labels = map[string]string{"set": "through-status"}
	ignored, err := claims.Update(ctx, created.DeepCopy(), metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	if ignored.Status.Allocation != nil {
		return fmt.Errorf("a plain update wrote status")
	}
	created.ResourceVersion = ignored.ResourceVersion
	updated, err := claims.UpdateStatus(ctx, created, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	if updated.Status.Allocation == nil || len(updated.Status.ReservedFor) != 1 {
		return fmt.Errorf("status was not written: %+v", updated.Status)
	}
	if !equality.Semantic.DeepEqual(updated.Spec, ignored.Spec) {
		return fmt.Errorf("a status update changed spec")
	}
	return nil
}

const many = 11

func createMany(ctx context.Context, e *env) error {
	for index := range many {
		if _, err := e.client.CoreV1().ConfigMaps(e.namespace).Create(ctx, configMap(fmt.Sprintf("m-%02d", index)), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func pages(ctx context.Context, e *env) error {
	if err := createMany(ctx, e); err != nil {
		return err
	}
	maps := e.client.CoreV1().ConfigMaps(e.namespace)
	first, err := maps.List(ctx, metav1.ListOptions{Limit: 4})
	if err != nil {
		return err
	}
	if len(first.Items) != 4 || first.RemainingItemCount == nil || *first.RemainingItemCount != many-4 {
		return fmt.Errorf("first page: %d objects, %v remain", len(first.Items), first.RemainingItemCount)
	}
	// Neither what comes nor what goes meanwhile changes the pages that follow.
	if err := maps.Delete(ctx, "m-05", metav1.DeleteOptions{}); err != nil {
		return err
	}
	if _, err := maps.Create(ctx, configMap("m-055"), metav1.CreateOptions{}); err != nil {
		return err
	}
	next, err := maps.List(ctx, metav1.ListOptions{Limit: 4, Continue: first.Continue})
	if err != nil {
		return err
	}
	if err := expect("resourceVersion of the second page", next.ResourceVersion, first.ResourceVersion); err != nil {
		return err
	}
	if err := expect("second object of the second page", next.Items[1].Name, "m-05"); err != nil {
		return err
	}
	var names []string
	eachPage := pager.New(pager.SimplePageFunc(func(options metav1.ListOptions) (runtime.Object, error) {
		return maps.List(ctx, options)
	}))
	eachPage.PageSize = 3
	err = eachPage.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		names = append(names, object.(*corev1.ConfigMap).Name)
		return nil
	})
	if err != nil {
		return err
	}
	if len(names) != many || !slices.IsSorted(names) {
		return fmt.Errorf("the pager found %v", names)
	}
	return nil
}

func exact(ctx context.Context, e *env) error {
	maps := e.client.CoreV1().ConfigMaps(e.namespace)
	then, err := maps.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if err := createMany(ctx, e); err != nil {
		return err
	}
	old, err := maps.List(ctx, metav1.ListOptions{
		ResourceVersion: then.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact,
	})
	if err != nil {
		return err
	}
	newer, err := maps.List(ctx, metav1.ListOptions{
		ResourceVersion: then.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if err != nil {
		return err
	}
	return expect("numbers of objects", [2]int{len(old.Items), len(newer.Items)}, [2]int{len(then.Items), len(then.Items) + many})
}

func forget(ctx context.Context, e *env) error {
	maps := e.client.CoreV1().ConfigMaps(e.namespace)
	if _, err := maps.Create(ctx, configMap("churn"), metav1.CreateOptions{}); err != nil {
		return err
	}
	for index := range e.history + 10 {
		patch := fmt.Sprintf(`{"data":{"key":"%d"}}`, index)
		if _, err := maps.Patch(ctx, "churn", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func expiredPage(ctx context.Context, e *env) error {
	if err := createMany(ctx, e); err != nil {
		return err
	}
	maps := e.client.CoreV1().ConfigMaps(e.namespace)
	first, err := maps.List(ctx, metav1.ListOptions{Limit: 4})
	if err != nil {
		return err
	}
	if err := forget(ctx, e); err != nil {
		return err
	}
	_, err = maps.List(ctx, metav1.ListOptions{Limit: 4, Continue: first.Continue})
	if err := refused("page of a past that is gone", err, apierrors.IsResourceExpired); err != nil {
		return err
	}
	token := err.(apierrors.APIStatus).Status().Continue
	if token == "" {
		return fmt.Errorf("the refusal has no token to go on with")
	}
	rest, err := maps.List(ctx, metav1.ListOptions{Continue: token})
	if err != nil {
		return err
	}
	if rest.ResourceVersion == first.ResourceVersion || rest.ResourceVersion == "" {
		return fmt.Errorf("the rest is of revision %q", rest.ResourceVersion)
	}
	for _, each := range rest.Items {
		if each.Name <= first.Items[3].Name && strings.HasPrefix(each.Name, "m-") {
			return fmt.Errorf("%s came twice", each.Name)
		}
	}
	if rest.Items[len(rest.Items)-1].Name != fmt.Sprintf("m-%02d", many-1) {
		return fmt.Errorf("the rest ends with %s", rest.Items[len(rest.Items)-1].Name)
	}
	return nil
}

func preconditions(ctx context.Context, e *env) error {
	maps := e.client.CoreV1().ConfigMaps(e.namespace)
	created, err := maps.Create(ctx, configMap("m"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	remove := func(uid types.UID, version string) error {
		return maps.Delete(ctx, "m", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
	}
	return all(
		func() error {
			return refused("another UID", remove("other", created.ResourceVersion), apierrors.IsConflict)
		},
		func() error { return refused("another version", remove(created.UID, "1"), apierrors.IsConflict) },
		func() error { return remove(created.UID, created.ResourceVersion) },
	)
}

func deleteCollection(ctx context.Context, e *env) error {
	if err := createMany(ctx, e); err != nil {
		return err
	}
	maps := e.client.CoreV1().ConfigMaps(e.namespace)
	kept := configMap("kept")
	kept.Labels = map[string]string{"keep": "yes"}
	if _, err := maps.Create(ctx, kept, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "keep!=yes"}); err != nil {
		return err
	}
	left, err := maps.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name!=kube-root-ca.crt"})
	if err != nil {
		return err
	}
	if len(left.Items) != 1 || left.Items[0].Name != "kept" {
		return fmt.Errorf("%d objects are left", len(left.Items))
	}
	return nil
}

func finalizers(ctx context.Context, e *env) error {
	claims := e.client.ResourceV1().ResourceClaims(e.namespace)
	held := claim("held")
	held.Finalizers = []string{"example.com/hold"}
	if _, err := claims.Create(ctx, held, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := claims.Delete(ctx, "held", metav1.DeleteOptions{}); err != nil {
		return err
	}
	going, err := claims.Get(ctx, "held", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if going.DeletionTimestamp == nil {
		return fmt.Errorf("no deletionTimestamp")
	}
	going.Finalizers = nil
	if _, err := claims.Update(ctx, going, metav1.UpdateOptions{}); err != nil {
		return err
	}
	_, err = claims.Get(ctx, "held", metav1.GetOptions{})
	return refused("get after the last finalizer", err, apierrors.IsNotFound)
}

func garbage(ctx context.Context, e *env) error {
	owner, err := e.client.CoreV1().Pods(e.namespace).Create(ctx, pod("owner"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	owned := claim("owned")
	owned.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("Pod"))}
	claims := e.client.ResourceV1().ResourceClaims(e.namespace)
	if _, err := claims.Create(ctx, owned, metav1.CreateOptions{}); err != nil {
		return err
	}
	background := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground), GracePeriodSeconds: ptr.To(int64(0))}
	if err := e.client.CoreV1().Pods(e.namespace).Delete(ctx, "owner", background); err != nil {
		return err
	}
	return eventually(ctx, "the owned claim goes", func() (bool, error) {
		_, err := claims.Get(ctx, "owned", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

func dryRun(ctx context.Context, e *env) error {
	claims := e.client.ResourceV1().ResourceClaims(e.namespace)
	made, err := claims.Create(ctx, claim("dry"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return err
	}
	if made.UID == "" {
		return fmt.Errorf("the answer has no UID")
	}
	_, err = claims.Get(ctx, "dry", metav1.GetOptions{})
	return refused("get after a dry run", err, apierrors.IsNotFound)
}

type warnings []string

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) { *w = append(*w, text) }

func fieldValidation(ctx context.Context, e *env) error {
	var heard warnings
	e.config.WarningHandler = &heard
	client, err := kubernetes.NewForConfig(e.config)
	if err != nil {
		return err
	}
	patch := []byte(`{"spec":{"nonsense":1}}`)
	claims := client.ResourceV1().ResourceClaims(e.namespace)
	if _, err := claims.Create(ctx, claim("one"), metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err = claims.Patch(ctx, "one", types.MergePatchType, patch, metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict})
	if err == nil || !strings.Contains(err.Error(), `unknown field "spec.nonsense"`) {
		return fmt.Errorf("strict: %w", err)
	}
	if _, err := claims.Patch(ctx, "one", types.MergePatchType, patch, metav1.PatchOptions{FieldValidation: metav1.FieldValidationWarn}); err != nil {
		return err
	}
	if len(heard) != 1 || !strings.Contains(heard[0], `unknown field "spec.nonsense"`) {
		return fmt.Errorf("warnings: %q", heard)
	}
	return nil
}
