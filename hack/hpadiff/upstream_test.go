package hpadiff

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/scale"
	"k8s.io/kubernetes/pkg/controller/podautoscaler"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"
	resourceclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	"k8s.io/metrics/pkg/client/custom_metrics"
	"k8s.io/metrics/pkg/client/external_metrics"

	"github.com/gantry-project/gantry/test/replay/autoscalers"
)

// upstream has upstream's controller decide every step of s, fills in what it wants, and returns
// when the first step was. Time is that of a synctest bubble: the controller acts at the very
// second.
func upstream(t *testing.T, s *autoscalers.Series) (start time.Time) {
	t.Helper()
	runtime.ErrorHandlers = nil // they wait by the time of other bubbles
	// The fake client counts no versions, by which the controller knows its own writes.
	if err := utilfeature.DefaultMutableFeatureGate.Set(fmt.Sprintf(
		"StaleControllerConsistencyHPA=false,HPAScaleToZero=%v", s.Options.ScaleToZero)); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		start = time.Now()
		ctx, stop := context.WithCancel(t.Context())
		c := &cluster{replicas: s.Replicas}
		client := fake.NewSimpleClientset(s.Autoscaler())
		hpas := client.AutoscalingV2().HorizontalPodAutoscalers(autoscalers.Namespace)
		mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{appsv1.SchemeGroupVersion})
		mapper.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
		shared := informers.NewSharedInformerFactory(client, 0)
		pods := shared.Core().V1().Pods()
		period := seconds(s.Period)
		controller := podautoscaler.NewHorizontalController(ctx, c, c, client.AutoscalingV2(), mapper,
			metrics.NewRESTMetricsClient(c, c, c.external()), shared.Autoscaling().V2().HorizontalPodAutoscalers(),
			pods,
			period, seconds(s.Options.Downscale), s.Options.Tolerance, seconds(s.Options.CPUInitialization),
			seconds(s.Options.ReadinessDelay))
		shared.Start(ctx.Done())
		shared.WaitForCacheSync(ctx.Done())
		var done sync.WaitGroup
		for i := range s.Steps {
			step := &s.Steps[i]
			if i > 0 {
				time.Sleep(period - time.Second - after)
			}
			if step.Spec != nil && i > 0 {
				h, err := hpas.Get(ctx, autoscalers.Name, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				h.Spec = *step.Spec.DeepCopy() // the generation stays: the next period is the next decision
				if _, err := hpas.Update(ctx, h, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			now := start.Add(time.Duration(i) * period)
			listed := c.set(step, now)
			if err := pods.Informer().GetStore().Replace(listed, ""); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				done.Go(func() { controller.Run(ctx, 1) })
				time.Sleep(after)
			} else {
				time.Sleep(time.Second + after)
			}
			synctest.Wait()
			h, err := hpas.Get(ctx, autoscalers.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			step.Want = c.snapshot.Describe(&h.Status, c.size(), c.drain(), start)
		}
		stop()
		done.Wait()
		shared.Shutdown()
	})
	return start
}

// after is how long after a period it is looked at what was decided.
const after = time.Millisecond

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// cluster is what the controller finds: the scale, the metrics APIs, and the sink of its events.
type cluster struct {
	mu       sync.Mutex
	snapshot autoscalers.Snapshot
	replicas int32
	events   []string
}

// set makes step what there is, and returns its Pods.
func (c *cluster) set(step *autoscalers.Step, now time.Time) []any {
	c.mu.Lock()
	defer c.mu.Unlock()
	if step.Set != nil {
		c.replicas = *step.Set
	}
	c.snapshot = autoscalers.Snapshot{Step: step, Replicas: c.replicas, Now: now}
	var out []any
	for _, p := range c.snapshot.Pods() {
		out = append(out, p)
	}
	return out
}

func (c *cluster) size() int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.replicas
}

func (c *cluster) drain() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.events
	c.events = nil
	return out
}

func (c *cluster) PodMetricses(ns string) resourceclient.PodMetricsInterface {
	return c.snapshot.Clients().Resource.PodMetricses(ns)
}

func (c *cluster) RootScopedMetrics() custom_metrics.MetricsInterface {
	return c.snapshot.Clients().Custom.RootScopedMetrics()
}

func (c *cluster) NamespacedMetrics(ns string) custom_metrics.MetricsInterface {
	return c.snapshot.Clients().Custom.NamespacedMetrics(ns)
}

func (c *cluster) external() external_metrics.ExternalMetricsClient { return external{c} }

type external struct{ *cluster }

func (e external) NamespacedMetrics(ns string) external_metrics.MetricsInterface {
	return e.snapshot.Clients().External.NamespacedMetrics(ns)
}

func (c *cluster) Scales(string) scale.ScaleInterface { return scales{c: c} }

// scales is the scale of the one target.
type scales struct {
	scale.ScaleInterface
	c *cluster
}

func (s scales) Get(_ context.Context, _ schema.GroupResource, _ string,
	_ metav1.GetOptions) (*autoscalingv1.Scale, error) {
	if text := s.c.snapshot.Step.ScaleErr; text != "" {
		return nil, errors.New(text)
	}
	return s.c.snapshot.Scale(), nil
}

func (s scales) Update(_ context.Context, _ schema.GroupResource, x *autoscalingv1.Scale,
	_ metav1.UpdateOptions) (*autoscalingv1.Scale, error) {
	if text := s.c.snapshot.Step.UpdateErr; text != "" {
		return nil, errors.New(text)
	}
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.c.replicas = x.Spec.Replicas
	return x, nil
}

func (c *cluster) Events(string) typedcorev1.EventInterface { return sink{c: c} }

// sink takes the controller's events.
type sink struct {
	typedcorev1.EventInterface
	c *cluster
}

func (s sink) CreateWithEventNamespaceWithContext(_ context.Context, e *corev1.Event) (*corev1.Event, error) {
	return s.note(e)
}

func (s sink) CreateWithEventNamespace(e *corev1.Event) (*corev1.Event, error) { return s.note(e) }

func (s sink) UpdateWithEventNamespace(e *corev1.Event) (*corev1.Event, error) { return s.note(e) }

func (s sink) UpdateWithEventNamespaceWithContext(_ context.Context, e *corev1.Event) (*corev1.Event, error) {
	return s.note(e)
}

func (s sink) PatchWithEventNamespace(e *corev1.Event, patch []byte) (*corev1.Event, error) {
	return s.patch(e, patch)
}

func (s sink) PatchWithEventNamespaceWithContext(_ context.Context, e *corev1.Event,
	patch []byte) (*corev1.Event, error) {
	return s.patch(e, patch)
}

func (s sink) note(e *corev1.Event) (*corev1.Event, error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	message := strings.TrimPrefix(e.Message, "(combined from similar events): ")
	s.c.events = append(s.c.events, e.Type+" "+e.Reason+": "+message)
	return e, nil
}

func (s sink) patch(e *corev1.Event, patch []byte) (*corev1.Event, error) {
	var changed struct{ Message *string }
	if err := json.Unmarshal(patch, &changed); err != nil {
		return nil, err
	}
	if changed.Message != nil {
		e.Message = *changed.Message
	}
	return s.note(e)
}
