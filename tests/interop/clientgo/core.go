package main

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/reference"
	"k8s.io/utils/ptr"
)

func init() {
	register(map[string]check{
		"a_pod_is_bound_once":                              binding,
		"a_status_patch_for_another_uid_is_a_conflict":     statusOfAnotherPod,
		"a_pod_on_a_node_goes_when_its_kubelet_says_so":    gracefulDelete,
		"core_events_are_recorded_and_counted":             coreEvents,
		"new_events_are_recorded":                          newEvents,
		"leadership_passes_from_one_candidate_to_the_next": leaders,
		"tokens_are_issued_and_name_their_service_account": tokens,
	})
}

func bind(ctx context.Context, e *env, name, node string) error {
	return e.client.CoreV1().Pods(e.namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: name, Annotations: map[string]string{"bound.example.com/by": "check"}},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
}

func binding(ctx context.Context, e *env) error {
	pods := e.client.CoreV1().Pods(e.namespace)
	if _, err := pods.Create(ctx, pod("p"), metav1.CreateOptions{}); err != nil {
		return err
	}
	unbound, err := pods.List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName="})
	if err != nil {
		return err
	}
	if err := expect("number of pods without a node", len(unbound.Items), 1); err != nil {
		return err
	}
	if err := bind(ctx, e, "p", "node-1"); err != nil {
		return err
	}
	bound, err := pods.Get(ctx, "p", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := expect("node and annotation", bound.Spec.NodeName+" "+bound.Annotations["bound.example.com/by"], "node-1 check"); err != nil {
		return err
	}
	if len(bound.Status.Conditions) != 1 || bound.Status.Conditions[0].Type != corev1.PodScheduled || bound.Status.Conditions[0].Status != corev1.ConditionTrue {
		return fmt.Errorf("conditions are %+v", bound.Status.Conditions)
	}
	return refused("second binding", bind(ctx, e, "p", "node-2"), apierrors.IsConflict)
}

func statusOfAnotherPod(ctx context.Context, e *env) error {
	created, err := e.client.CoreV1().Pods(e.namespace).Create(ctx, pod("p"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	wanted := created.DeepCopy()
	wanted.Status.Phase = corev1.PodRunning
	wanted.UID = "another"
	_, err = patchStatus(ctx, e, created, wanted)
	return refused("status of another pod", err, apierrors.IsConflict)
}

func gracefulDelete(ctx context.Context, e *env) error {
	pods := e.client.CoreV1().Pods(e.namespace)
	if _, err := pods.Create(ctx, pod("p"), metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := bind(ctx, e, "p", "node-1"); err != nil {
		return err
	}
	if err := pods.Delete(ctx, "p", metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(7))}); err != nil {
		return err
	}
	going, err := pods.Get(ctx, "p", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if going.DeletionTimestamp == nil || going.DeletionGracePeriodSeconds == nil || *going.DeletionGracePeriodSeconds != 7 {
		return fmt.Errorf("deletion is %v after %v s", going.DeletionTimestamp, going.DeletionGracePeriodSeconds)
	}
	now := metav1.NewDeleteOptions(0)
	now.Preconditions = metav1.NewUIDPreconditions(string(going.UID))
	if err := pods.Delete(ctx, "p", *now); err != nil {
		return err
	}
	_, err = pods.Get(ctx, "p", metav1.GetOptions{})
	return refused("get after the kubelet's delete", err, apierrors.IsNotFound)
}

func coreEvents(ctx context.Context, e *env) error {
	about, err := e.client.CoreV1().Pods(e.namespace).Create(ctx, pod("p"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: e.client.CoreV1().Events("")})
	defer broadcaster.Shutdown()
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "check", Host: "node-1"})
	for range 3 {
		recorder.Eventf(about, corev1.EventTypeWarning, "Repeated", "the same %s", "words")
	}
	return eventually(ctx, "the event is counted three times", func() (bool, error) {
		found, err := e.client.CoreV1().Events(e.namespace).SearchWithContext(ctx, scheme.Scheme, about)
		if err != nil {
			return false, err
		}
		return len(found.Items) == 1 && found.Items[0].Count == 3 && found.Items[0].Message == "the same words", nil
	})
}

func newEvents(ctx context.Context, e *env) error {
	about, err := e.client.ResourceV1().ResourceClaims(e.namespace).Create(ctx, claim("one"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: e.client.EventsV1()})
	defer broadcaster.Shutdown()
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return err
	}
	recorder := broadcaster.NewRecorder(scheme.Scheme, "check.example.com/recorder")
	for range 2 {
		recorder.Eventf(about, nil, corev1.EventTypeNormal, "Allocated", "Allocating", "to %s", "node-1")
	}
	who, err := reference.GetReference(scheme.Scheme, about)
	if err != nil {
		return err
	}
	err = eventually(ctx, "the event is a series", func() (bool, error) {
		found, err := e.client.EventsV1().Events(e.namespace).List(ctx, metav1.ListOptions{FieldSelector: "regarding.name=" + who.Name})
		if err != nil {
			return false, err
		}
		return len(found.Items) == 1 && found.Items[0].Series != nil && found.Items[0].Note == "to node-1", nil
	})
	if err != nil {
		return err
	}
	// The same event, as the older API has it.
	found, err := e.client.CoreV1().Events(e.namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(who.UID)})
	if err != nil {
		return err
	}
	if len(found.Items) != 1 || found.Items[0].Message != "to node-1" || found.Items[0].ReportingController != "check.example.com/recorder" {
		return fmt.Errorf("core events: %+v", found.Items)
	}
	return nil
}

func leaders(ctx context.Context, e *env) error {
	order := make(chan string, 4)
	candidate := func(name string) (*leaderelection.LeaderElector, error) {
		return leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta:  metav1.ObjectMeta{Namespace: e.namespace, Name: "lock"},
				Client:     e.client.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: name},
			},
			// Long enough that only a release passes the lease on within the check.
			LeaseDuration: 120 * time.Second, RenewDeadline: 100 * time.Second, RetryPeriod: 200 * time.Millisecond,
			ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { order <- name + " leads" },
				OnStoppedLeading: func() {},
			},
		})
	}
	first, err := candidate("first")
	if err != nil {
		return err
	}
	second, err := candidate("second")
	if err != nil {
		return err
	}
	firstContext, stopFirst := context.WithCancel(ctx)
	defer stopFirst()
	firstDone := make(chan struct{})
	go func() { first.Run(firstContext); close(firstDone) }()
	if err := expect("who leads", <-order, "first leads"); err != nil {
		return err
	}
	secondContext, stopSecond := context.WithCancel(ctx)
	defer stopSecond()
	secondDone := make(chan struct{})
	go func() { second.Run(secondContext); close(secondDone) }()
	err = eventually(ctx, "the second candidate knows its leader", func() (bool, error) { return second.GetLeader() == "first", nil })
	stopFirst()
	<-firstDone
	if err == nil {
		select {
		case who := <-order:
			err = expect("who leads next", who, "second leads")
		case <-ctx.Done():
			err = fmt.Errorf("nobody took over")
		}
	}
	stopSecond()
	<-secondDone
	if err != nil {
		return err
	}
	lease, err := e.client.CoordinationV1().Leases(e.namespace).Get(ctx, "lock", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if lease.Spec.LeaseTransitions == nil || *lease.Spec.LeaseTransitions < 1 || ptr.Deref(lease.Spec.HolderIdentity, "?") != "" {
		return fmt.Errorf("lease is %+v", lease.Spec)
	}
	return nil
}

func tokens(ctx context.Context, e *env) error {
	accounts := e.client.CoreV1().ServiceAccounts(e.namespace)
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	issued, err := accounts.CreateToken(ctx, "robot", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	asRobot := rest.AnonymousClientConfig(e.config)
	asRobot.BearerToken = issued.Status.Token
	robot, err := kubernetes.NewForConfig(asRobot)
	if err != nil {
		return err
	}
	who, err := robot.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := expect("user of the token", who.Status.UserInfo.Username, "system:serviceaccount:"+e.namespace+":robot"); err != nil {
		return err
	}
	allowed, err := e.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "create", Group: "resource.k8s.io", Resource: "resourceslices",
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return expect("allowed", allowed.Status.Allowed, true)
}
