package main

import (
	"context"
	"fmt"
	"math/rand"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/testing"
	"k8s.io/component-base/featuregate"
	tracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	plfeature "k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// Below these numbers kube-scheduler looks for more nodes that fit.
const (
	leastNodes      = 100
	leastPercentage = 5
)

// scheduler drives the plugin. It has kube-scheduler's memory: the node that it begins with.
type scheduler struct {
	plugin  *dynamicresources.DynamicResources
	handle  framework.Framework
	manager fwk.SharedDRAManager
	claims  *assumecache.AssumeCache
	nodes   []fwk.NodeInfo
	next    int
}

func newScheduler(ctx context.Context, work *workload) (*scheduler, error) {
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(work.gates); err != nil {
		return nil, err
	}
	metrics.Register()
	objects := make([]apiruntime.Object, 0, len(work.classes))
	for _, class := range work.classes {
		objects = append(objects, class)
	}
	client := fake.NewSimpleClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Resource().V1().ResourceClaims().Informer()
	claims := assumecache.NewAssumeCache(klog.FromContext(ctx), informer, "ResourceClaim", "", nil)
	manager, err := newManager(ctx, factory, client, claims, work)
	if err != nil {
		return nil, err
	}
	handle, err := frameworkruntime.NewFramework(ctx, nil, nil,
		frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSharedDRAManager(manager),
	)
	if err != nil {
		return nil, err
	}
	args := &config.DynamicResourcesArgs{
		FilterTimeout: &metav1.Duration{Duration: config.DynamicResourcesFilterTimeoutDefault},
	}
	gates := plfeature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	plugin, err := dynamicresources.New(ctx, args, handle, gates)
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	driven := &scheduler{
		plugin: plugin.(*dynamicresources.DynamicResources), handle: handle, manager: manager, claims: claims,
	}
	for _, node := range work.nodes {
		info := framework.NewNodeInfo()
		info.SetNode(node)
		driven.nodes = append(driven.nodes, info)
	}
	return driven, nil
}

// newManager is kube-scheduler's view of slices, classes and claims, filled without an API server.
func newManager(
	ctx context.Context, factory informers.SharedInformerFactory, client *fake.Clientset,
	claims *assumecache.AssumeCache, work *workload,
) (fwk.SharedDRAManager, error) {
	// The client's own store would keep copies of all slices, beside the informer's.
	client.PrependReactor("list", "resourceslices", func(testing.Action) (bool, apiruntime.Object, error) {
		return true, &resourceapi.ResourceSliceList{Items: work.slices}, nil
	})
	gate := func(name featuregate.Feature) bool { return utilfeature.DefaultFeatureGate.Enabled(name) }
	options := tracker.Options{
		EnableDeviceTaintRules:   gate(features.DRADeviceTaintRules),
		EnableConsumableCapacity: gate(features.DRAConsumableCapacity),
		SliceInformer:            factory.Resource().V1().ResourceSlices(),
		KubeClient:               client,
	}
	if options.EnableDeviceTaintRules {
		options.TaintInformer = factory.Resource().V1().DeviceTaintRules()
	}
	tracked, err := tracker.StartTracker(ctx, options)
	if err != nil {
		return nil, err
	}
	manager := dynamicresources.NewDRAManager(ctx, claims, tracked, factory)
	for _, claim := range work.claims {
		assumecache.AddTestObject(claims, claim)
	}
	return manager, nil
}

// leave deletes the claim of a pod, as the informer does once the API server has deleted it.
func (s *scheduler) leave(pod string) {
	assumecache.DeleteTestObject(s.claims, &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod},
	})
}

// allocation is that of a pod's claim; nil if it has none.
func (s *scheduler) allocation(pod *v1.Pod) (*resourceapi.AllocationResult, error) {
	claim, err := s.manager.ResourceClaims().Get(pod.Namespace, pod.Name)
	if err != nil {
		return nil, err
	}
	return claim.Status.Allocation, nil
}

// schedule is one scheduling cycle. It returns the node, or nothing if the pod fits on no node.
func (s *scheduler) schedule(ctx context.Context, pod *v1.Pod) (string, error) {
	state := framework.NewCycleState()
	if _, status := s.plugin.PreFilter(ctx, state, pod, s.nodes); !status.IsSuccess() {
		return "", status.AsError()
	}
	feasible, err := s.feasible(ctx, state, pod)
	if err != nil || len(feasible) == 0 {
		return "", err
	}
	name, err := s.best(ctx, state, pod, feasible)
	if err != nil {
		return "", err
	}
	if status := s.plugin.Reserve(ctx, state, pod, name); !status.IsSuccess() {
		return "", status.AsError()
	}
	return name, s.bind(pod)
}

// feasible is what kube-scheduler's findNodesThatPassFilters does.
func (s *scheduler) feasible(ctx context.Context, state fwk.CycleState, pod *v1.Pod) ([]fwk.NodeInfo, error) {
	wanted := s.enough()
	found := make([]fwk.NodeInfo, wanted)
	var length, refused int32
	var failure atomic.Pointer[error]
	filtering, cancel := context.WithCancel(ctx)
	defer cancel()
	check := func(i int) {
		node := s.nodes[(s.next+i)%len(s.nodes)]
		status := s.plugin.Filter(filtering, state, pod, node)
		switch {
		case status.Code() == fwk.Error:
			err := status.AsError()
			failure.CompareAndSwap(nil, &err)
			cancel()
		case status.IsSuccess():
			if place := atomic.AddInt32(&length, 1); place > wanted {
				cancel()
				atomic.AddInt32(&length, -1)
			} else {
				found[place-1] = node
			}
		default:
			atomic.AddInt32(&refused, 1)
		}
	}
	s.handle.Parallelizer().Until(filtering, len(s.nodes), check, metrics.Filter)
	s.next = (s.next + int(length+refused)) % len(s.nodes)
	if err := failure.Load(); err != nil {
		return nil, *err
	}
	return found[:length], nil
}

// enough is how many nodes that fit end kube-scheduler's search, at its default percentageOfNodesToScore.
func (s *scheduler) enough() int32 {
	all := int32(len(s.nodes))
	if all < leastNodes {
		return all
	}
	return max(all*max(50-all/125, leastPercentage)/100, leastNodes)
}

// best is a random one of the nodes with the highest score.
func (s *scheduler) best(
	ctx context.Context, state fwk.CycleState, pod *v1.Pod, feasible []fwk.NodeInfo,
) (string, error) {
	name, top, equals := "", int64(-1), 0
	for _, node := range feasible {
		score, status := s.plugin.Score(ctx, state, pod, node)
		if !status.IsSuccess() {
			return "", status.AsError()
		}
		if score > top {
			top, equals = score, 0
		}
		if score == top {
			equals++
			if rand.Intn(equals) == 0 {
				name = node.Node().Name
			}
		}
	}
	return name, nil
}

// bind makes the reserved claim an allocated one, as PreBind does once the API server has answered.
func (s *scheduler) bind(pod *v1.Pod) error {
	claims := s.manager.ResourceClaims()
	allocation := claims.GetPendingAllocation(pod.UID)
	if allocation == nil {
		return fmt.Errorf("nothing is reserved")
	}
	claim, err := claims.Get(pod.Namespace, pod.Name)
	if err != nil {
		return err
	}
	claim = claim.DeepCopy()
	claim.ResourceVersion = "2"
	claim.Status.Allocation = allocation
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{
		{Resource: "pods", Name: pod.Name, UID: pod.UID},
	}
	if err := claims.AssumeClaimAfterAPICall(claim); err != nil {
		return err
	}
	claims.MaybeRemoveClaimPendingAllocation(claim.UID, true)
	return nil
}
