package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
)

func init() {
	register(map[string]check{
		"an_informer_streams_its_first_list":                    informerWatchList,
		"an_informer_lists_where_streaming_is_refused":          informerFallback,
		"an_informer_relists_when_the_past_is_gone":             informerRelist,
		"a_watch_from_a_forgotten_revision_is_expired":          watchExpired,
		"bookmarks_tell_progress":                               bookmarks,
		"a_retry_watcher_misses_nothing":                        retryWatcher,
		"leaving_a_selection_is_a_deletion":                     selectionLeft,
		"slices_are_listed_and_watched_by_node_driver_and_pool": sliceSelectors,
		"a_field_that_can_not_be_selected_by_is_a_bad_request":  unknownField,
	})
}

// meddler changes what an informer's requests meet, and remembers what was asked.
type meddler struct {
	next http.RoundTripper

	mu              sync.Mutex
	asked           []string
	refuseStreaming bool
	cut             bool
	bodies          []io.Closer
}

func (m *meddler) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	kind := "list"
	if query.Get("watch") != "" {
		kind = "watch"
	}
	if query.Get("sendInitialEvents") == "true" {
		kind = "stream"
	}
	m.mu.Lock()
	m.asked = append(m.asked, kind)
	refuse, cut := m.refuseStreaming && kind == "stream", m.cut
	m.mu.Unlock()
	if refuse {
		body := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"sendInitialEvents is forbidden"}`
		return &http.Response{
			StatusCode: http.StatusUnprocessableEntity, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(body)), Request: request,
		}, nil
	}
	if cut {
		return nil, fmt.Errorf("the line is cut")
	}
	answer, err := m.next.RoundTrip(request)
	if err == nil && kind != "list" {
		m.mu.Lock()
		m.bodies = append(m.bodies, answer.Body)
		m.mu.Unlock()
	}
	return answer, err
}

// setCut ends every watch and refuses new requests, or lets them pass again.
func (m *meddler) setCut(cut bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cut = cut
	for _, body := range m.bodies {
		body.Close()
	}
	m.bodies = nil
}

func (m *meddler) requests() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.asked)
}

// startInformer runs an informer of config maps in the check's namespace through a meddler.
func startInformer(ctx context.Context, e *env, m *meddler) (cache.SharedIndexInformer, error) {
	e.config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		m.next = next
		return m
	})
	client, err := kubernetes.NewForConfig(e.config)
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(e.namespace))
	informer := factory.Core().V1().ConfigMaps().Informer()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, fmt.Errorf("the informer did not sync; it asked %v", m.requests())
	}
	return informer, nil
}

func follows(ctx context.Context, e *env, informer cache.SharedIndexInformer) error {
	maps := e.client.CoreV1().ConfigMaps(e.namespace)
	key := e.namespace + "/followed"
	value := func() string {
		object, found, _ := informer.GetStore().GetByKey(key)
		if !found {
			return ""
		}
		return object.(*corev1.ConfigMap).Data["key"]
	}
	if _, err := maps.Create(ctx, configMap("followed"), metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := eventually(ctx, "the informer sees a new object", func() (bool, error) { return value() == "value", nil }); err != nil {
		return err
	}
	if _, err := maps.Patch(ctx, "followed", types.MergePatchType, []byte(`{"data":{"key":"x"}}`), metav1.PatchOptions{}); err != nil {
		return err
	}
	if err := eventually(ctx, "the informer sees a change", func() (bool, error) { return value() == "x", nil }); err != nil {
		return err
	}
	if err := maps.Delete(ctx, "followed", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return eventually(ctx, "the informer sees a deletion", func() (bool, error) { return value() == "", nil })
}

func synced(e *env, informer cache.SharedIndexInformer) error {
	for index := range many {
		if _, found, _ := informer.GetStore().GetByKey(fmt.Sprintf("%s/m-%02d", e.namespace, index)); !found {
			return fmt.Errorf("the informer synced without m-%02d", index)
		}
	}
	return nil
}

func informerWatchList(ctx context.Context, e *env) error {
	if err := createMany(ctx, e); err != nil {
		return err
	}
	m := &meddler{}
	informer, err := startInformer(ctx, e, m)
	if err != nil {
		return err
	}
	if asked := m.requests(); slices.Contains(asked, "list") || asked[0] != "stream" {
		return fmt.Errorf("the informer asked %v", asked)
	}
	if err := synced(e, informer); err != nil {
		return err
	}
	return follows(ctx, e, informer)
}

func informerFallback(ctx context.Context, e *env) error {
	if err := createMany(ctx, e); err != nil {
		return err
	}
	m := &meddler{refuseStreaming: true}
	informer, err := startInformer(ctx, e, m)
	if err != nil {
		return err
	}
	if !slices.Contains(m.requests(), "list") {
		return fmt.Errorf("the informer asked %v", m.requests())
	}
	if err := synced(e, informer); err != nil {
		return err
	}
	return follows(ctx, e, informer)
}

func informerRelist(ctx context.Context, e *env) error {
	if err := createMany(ctx, e); err != nil {
		return err
	}
	m := &meddler{}
	informer, err := startInformer(ctx, e, m)
	if err != nil {
		return err
	}
	m.setCut(true)
	if err := e.client.CoreV1().ConfigMaps(e.namespace).Delete(ctx, "m-00", metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := forget(ctx, e); err != nil {
		return err
	}
	before := len(m.requests())
	m.setCut(false)
	err = eventually(ctx, "the informer forgets what was deleted meanwhile", func() (bool, error) {
		_, found, _ := informer.GetStore().GetByKey(e.namespace + "/m-00")
		return !found, nil
	})
	if err != nil {
		return err
	}
	if after := m.requests()[before:]; !slices.Contains(after, "stream") && !slices.Contains(after, "list") {
		return fmt.Errorf("it did so without listing again: %v", after)
	}
	return follows(ctx, e, informer)
}

func watchExpired(ctx context.Context, e *env) error {
	maps := e.client.CoreV1().ConfigMaps(e.namespace)
	first, err := maps.Create(ctx, configMap("m"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := forget(ctx, e); err != nil {
		return err
	}
	watching, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: first.ResourceVersion})
	if err == nil {
		defer watching.Stop()
		event := <-watching.ResultChan()
		if event.Type != watch.Error {
			return fmt.Errorf("first event is %s", event.Type)
		}
		err = apierrors.FromObject(event.Object)
	}
	return refused("watch from the past", err, apierrors.IsResourceExpired)
}

func bookmarks(ctx context.Context, e *env) error {
	maps := e.client.CoreV1().ConfigMaps(e.namespace)
	list, err := maps.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	watching, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion, AllowWatchBookmarks: true})
	if err != nil {
		return err
	}
	defer watching.Stop()
	// Nothing happens to config maps of this namespace, yet the watch moves on.
	other, err := e.client.ResourceV1().ResourceClaims(e.namespace).Create(ctx, claim("one"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	wanted, _ := strconv.ParseInt(other.ResourceVersion, 10, 64)
	for event := range watching.ResultChan() {
		if event.Type != watch.Bookmark {
			return fmt.Errorf("event %s", event.Type)
		}
		at, err := strconv.ParseInt(event.Object.(*corev1.ConfigMap).ResourceVersion, 10, 64)
		if err != nil {
			return err
		}
		if at >= wanted {
			return nil
		}
	}
	return fmt.Errorf("the watch ended")
}

func retryWatcher(ctx context.Context, e *env) error {
	maps := e.client.CoreV1().ConfigMaps(e.namespace)
	list, err := maps.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	// The server ends each watch after a second; the watcher begins the next where it was.
	second := int64(1)
	source := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		options.TimeoutSeconds = &second
		return maps.Watch(ctx, options)
	}}
	watching, err := toolswatch.NewRetryWatcherWithContext(ctx, list.ResourceVersion, source)
	if err != nil {
		return err
	}
	defer watching.Stop()
	for index := range 3 {
		name := fmt.Sprintf("m-%d", index)
		if _, err := maps.Create(ctx, configMap(name), metav1.CreateOptions{}); err != nil {
			return err
		}
		event := <-watching.ResultChan()
		if found, ok := event.Object.(*corev1.ConfigMap); !ok || event.Type != watch.Added || found.Name != name {
			return fmt.Errorf("event %s of %+v, want %s", event.Type, event.Object, name)
		}
		select {
		case event := <-watching.ResultChan():
			return fmt.Errorf("unexpected %s of %+v", event.Type, event.Object)
		case <-time.After(1100 * time.Millisecond):
		}
	}
	return nil
}

// next reads one event of a watch.
func next[T any](ctx context.Context, watching watch.Interface, kind watch.EventType) (T, error) {
	var none T
	select {
	case event, open := <-watching.ResultChan():
		object, ok := event.Object.(T)
		if !open || event.Type != kind || !ok {
			return none, fmt.Errorf("event %q of %T, want %s", event.Type, event.Object, kind)
		}
		return object, nil
	case <-ctx.Done():
		return none, fmt.Errorf("no %s in time", kind)
	}
}

func selectionLeft(ctx context.Context, e *env) error {
	maps := e.client.CoreV1().ConfigMaps(e.namespace)
	labeled := configMap("m")
	labeled.Labels = map[string]string{"in": "yes"}
	created, err := maps.Create(ctx, labeled, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	watching, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: created.ResourceVersion, LabelSelector: "in=yes"})
	if err != nil {
		return err
	}
	defer watching.Stop()
	gone, err := maps.Patch(ctx, "m", types.MergePatchType, []byte(`{"metadata":{"labels":{"in":"no"}}}`), metav1.PatchOptions{})
	if err != nil {
		return err
	}
	left, err := next[*corev1.ConfigMap](ctx, watching, watch.Deleted)
	if err != nil {
		return err
	}
	if err := expect("resourceVersion of the deletion", left.ResourceVersion, gone.ResourceVersion); err != nil {
		return err
	}
	if _, err := maps.Patch(ctx, "m", types.MergePatchType, []byte(`{"metadata":{"labels":{"in":"yes"}}}`), metav1.PatchOptions{}); err != nil {
		return err
	}
	_, err = next[*corev1.ConfigMap](ctx, watching, watch.Added)
	return err
}

func sliceSelectors(ctx context.Context, e *env) error {
	slices := e.client.ResourceV1().ResourceSlices()
	first, second := e.unique("one"), e.unique("two")
	for _, each := range []*resourceapi.ResourceSlice{slice(first, "a.example.com", first), slice(second, "b.example.com", second)} {
		if _, err := slices.Create(ctx, each, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	// Others may have slices too: every selector names a node or pool of this check's own.
	cases := map[string]int{
		resourceapi.ResourceSliceSelectorNodeName + "=" + first:                                                                     1,
		resourceapi.ResourceSliceSelectorNodeName + "=" + first + "," + resourceapi.ResourceSliceSelectorDriver + "=a.example.com":  1,
		resourceapi.ResourceSliceSelectorNodeName + "=" + first + "," + resourceapi.ResourceSliceSelectorDriver + "=b.example.com":  0,
		resourceapi.ResourceSliceSelectorNodeName + "=" + first + "," + resourceapi.ResourceSliceSelectorDriver + "!=b.example.com": 1,
		"spec.pool.name=" + second: 1,
		"metadata.name=" + second:  1,
	}
	for selector, want := range cases {
		list, err := slices.List(ctx, metav1.ListOptions{FieldSelector: selector})
		if err != nil {
			return fmt.Errorf("%s: %w", selector, err)
		}
		if err := expect("number of slices with "+selector, len(list.Items), want); err != nil {
			return err
		}
	}
	watching, err := slices.Watch(ctx, metav1.ListOptions{FieldSelector: resourceapi.ResourceSliceSelectorNodeName + "=" + second})
	if err != nil {
		return err
	}
	defer watching.Stop()
	if _, err := next[*resourceapi.ResourceSlice](ctx, watching, watch.Added); err != nil {
		return err
	}
	for _, name := range []string{first, second} {
		if err := slices.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	gone, err := next[*resourceapi.ResourceSlice](ctx, watching, watch.Deleted)
	if err != nil {
		return err
	}
	return expect("deleted slice", gone.Name, second)
}

func unknownField(ctx context.Context, e *env) error {
	_, err := e.client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.allNodes=true"})
	return refused("unknown field", err, apierrors.IsBadRequest)
}
