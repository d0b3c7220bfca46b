package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kubectl/pkg/polymorphichelpers"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/simulate/forecast"
	"github.com/gantry-project/gantry/internal/simulate/fork"
	"github.com/gantry-project/gantry/internal/simulate/memstore"
	"github.com/gantry-project/gantry/internal/simulate/source"
)

// Rollout gives a Deployment, StatefulSet or DaemonSet a new Pod template, and before that other
// bounds if some are given.
type Rollout struct {
	Object                   Object
	MaxSurge, MaxUnavailable *intstr.IntOrString // nil: as the object has them
	Images                   map[string]string   // by container: the new image; none: the same Pods again

	capacity capacityRecorder
}

// Verb implements Change.
func (o *Rollout) Verb() string { return "rollout" }

// Target implements Change.
func (o *Rollout) Target() []string { return []string{o.Object.String()} }

// restartedAt is the annotation by which `kubectl rollout restart` makes a new template.
const restartedAt = "kubectl.kubernetes.io/restartedAt"

// Begin implements Change.
func (o *Rollout) Begin(ctx context.Context, r *Run) error {
	live, err := o.Object.get(ctx, r)
	if err != nil {
		return err
	}
	if o.Object.Kind != "Deployment" && o.Object.Kind != "StatefulSet" && o.Object.Kind != "DaemonSet" {
		return fmt.Errorf("%s cannot be rolled out: a deployment, statefulset or daemonset can", o.Object)
	}
	strategy, err := o.strategy()
	if err != nil {
		return err
	}
	template := map[string]any{}
	if len(o.Images) == 0 {
		template["metadata"] = map[string]any{"annotations": map[string]any{
			restartedAt: r.Cluster.Now().Format(time.RFC3339)}}
	} else if template["spec"], err = imagesPatch(live, o.Images); err != nil {
		return err
	}
	spec := map[string]any{"template": template}
	for k, v := range strategy {
		spec[k] = v
	}
	o.capacity = capacityRecorder{cluster: r.Cluster, began: r.began, object: o.Object}
	if err := o.capacity.begin(ctx, r, live); err != nil {
		return err
	}
	r.Cluster.Watch(o.capacity.changed)
	return o.Object.patch(ctx, r, map[string]any{"spec": spec})
}

// strategy is the part of the patch that sets the bounds.
func (o *Rollout) strategy() (map[string]any, error) {
	bounds := map[string]any{}
	if o.MaxSurge != nil {
		bounds["maxSurge"] = o.MaxSurge
	}
	if o.MaxUnavailable != nil {
		bounds["maxUnavailable"] = o.MaxUnavailable
	}
	if len(bounds) == 0 {
		return nil, nil
	}
	field := "strategy"
	switch o.Object.Kind {
	case "StatefulSet":
		if o.MaxSurge != nil {
			return nil, fmt.Errorf("--max-surge: a statefulset has no surge; only its maxUnavailable can be set")
		}
		field = "updateStrategy"
	case "DaemonSet":
		field = "updateStrategy"
	}
	return map[string]any{field: map[string]any{"rollingUpdate": bounds}}, nil
}

// imagesPatch is the patch of a Pod spec that sets images, also of init containers. The error names
// the containers that there are.
func imagesPatch(o runtime.Object, images map[string]string) (map[string]any, error) {
	t := source.TemplateOf(o)
	if t == nil {
		return nil, fmt.Errorf("an object of type %T has no Pod template", o)
	}
	patch, found := map[string]any{}, 0
	var names []string
	for _, of := range []struct {
		field      string
		containers []corev1.Container
	}{{"initContainers", t.Spec.InitContainers}, {"containers", t.Spec.Containers}} {
		var list []any
		for _, c := range of.containers {
			names = append(names, c.Name)
			if image, ok := images[c.Name]; ok {
				list = append(list, map[string]any{"name": c.Name, "image": image})
			}
		}
		if found += len(list); len(list) > 0 {
			patch[of.field] = list
		}
	}
	if found != len(images) {
		return nil, fmt.Errorf("spec.template.spec.containers: not every one of the containers given is there; "+
			"there are: %s", strings.Join(names, ", "))
	}
	return patch, nil
}

// Done implements Change: `kubectl rollout status` says so, and no Pod is on its way out.
func (o *Rollout) Done(ctx context.Context, r *Run) (bool, error) {
	done, message, err := o.Object.rolledOut(ctx, r)
	r.Forecast.Capacity, r.Forecast.Outcome.Least = o.capacity.moments, o.capacity.least()
	if err != nil { // the progress deadline is over: it is not done, and goes on
		message, err = err.Error(), nil
	}
	r.Forecast.Outcome.Why = ""
	if !done {
		r.Forecast.Outcome.Why = strings.TrimSpace(message)
	}
	return done && r.allReady(), err
}

// Object names a workload.
type Object struct{ Kind, Namespace, Name string }

// String is kind/name as kubectl writes it.
func (o Object) String() string { return strings.ToLower(o.Kind) + "/" + o.Name }

// resources are the kinds that can be named, by kind.
var resources = map[string]schema.GroupVersionResource{
	"Deployment":  appsv1.SchemeGroupVersion.WithResource("deployments"),
	"StatefulSet": appsv1.SchemeGroupVersion.WithResource("statefulsets"),
	"DaemonSet":   appsv1.SchemeGroupVersion.WithResource("daemonsets"),
	"ReplicaSet":  appsv1.SchemeGroupVersion.WithResource("replicasets"),
}

// shortNames are kubectl's other names of these kinds.
var shortNames = map[string]string{"deploy": "Deployment", "sts": "StatefulSet", "ds": "DaemonSet", "rs": "ReplicaSet"}

// ParseObject reads kind/name.
func ParseObject(arg, namespace string) (Object, error) {
	kind, name, ok := strings.Cut(arg, "/")
	kind = strings.ToLower(kind)
	if ok && name != "" {
		if k, short := shortNames[kind]; short {
			return Object{k, namespace, name}, nil
		}
		for k := range resources {
			if l := strings.ToLower(k); kind == l || kind == l+"s" {
				return Object{k, namespace, name}, nil
			}
		}
	}
	return Object{}, fmt.Errorf("%q: write deployment/NAME, statefulset/NAME, daemonset/NAME or replicaset/NAME", arg)
}

func (o Object) path() string {
	gvr := resources[o.Kind]
	return fork.Path(gvr.GroupVersion(), gvr.Resource, o.Namespace) + "/" + o.Name
}

func (o Object) get(ctx context.Context, r *Run) (runtime.Object, error) {
	live, err := r.Cluster.Client().Discovery().RESTClient().Get().AbsPath(o.path()).Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no %s in namespace %s", o, o.Namespace)
	}
	if err != nil {
		return nil, err
	}
	return r.Cluster.Decode(live)
}

func (o Object) patch(ctx context.Context, r *Run, body map[string]any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return r.Cluster.Client().Discovery().RESTClient().Patch(types.StrategicMergePatchType).AbsPath(o.path()).
		Body(raw).Do(ctx).Error()
}

// rolledOut asks kubectl's rule.
func (o Object) rolledOut(ctx context.Context, r *Run) (bool, string, error) {
	live, err := o.get(ctx, r)
	if err != nil {
		return false, "", err
	}
	viewer, err := polymorphichelpers.StatusViewerFor(schema.GroupKind{Group: appsv1.GroupName, Kind: o.Kind})
	if err != nil {
		return false, "", err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return false, "", err
	}
	message, done, err := viewer.Status(&unstructured.Unstructured{Object: content}, 0)
	return done, message, err
}

// capacityRecorder counts the Pods of a workload at each change.
type capacityRecorder struct {
	cluster  *fork.Cluster
	began    time.Time
	object   Object
	selector labels.Selector
	pods     map[types.UID]*corev1.Pod
	old      map[string]bool // revisions before the rollout
	desired  int32
	moments  []forecast.Capacity
}

func (c *capacityRecorder) begin(ctx context.Context, r *Run, live runtime.Object) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return err
	}
	var of struct {
		Spec struct {
			Replicas *int32                `json:"replicas"`
			Selector *metav1.LabelSelector `json:"selector"`
		} `json:"spec"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &of); err != nil {
		return err
	}
	if c.selector, err = metav1.LabelSelectorAsSelector(of.Spec.Selector); err != nil {
		return err
	}
	c.pods, c.old = map[types.UID]*corev1.Pod{}, map[string]bool{}
	all, err := r.Cluster.Client().CoreV1().Pods(c.object.Namespace).List(ctx,
		metav1.ListOptions{LabelSelector: c.selector.String()})
	if err != nil {
		return err
	}
	for i := range all.Items {
		c.pods[all.Items[i].UID] = &all.Items[i]
		c.old[revisionOf(&all.Items[i])] = true
	}
	c.desired = int32(len(all.Items))
	if of.Spec.Replicas != nil {
		c.desired = *of.Spec.Replicas
	}
	c.moments = []forecast.Capacity{c.count()}
	return nil
}

func (c *capacityRecorder) changed(change memstore.Change) {
	old, _ := change.Old.(*corev1.Pod)
	cur, _ := change.New.(*corev1.Pod)
	switch {
	case cur == nil && old == nil:
		return
	case cur == nil:
		delete(c.pods, old.UID)
	case cur.Namespace == c.object.Namespace && c.selector.Matches(labels.Set(cur.Labels)):
		c.pods[cur.UID] = cur
	}
	m := c.count()
	last := &c.moments[len(c.moments)-1]
	same := *last
	same.At = m.At
	switch {
	case same == m:
	case last.At == m.At && len(c.moments) > 1:
		*last = m
	default:
		c.moments = append(c.moments, m)
	}
}

func (c *capacityRecorder) count() forecast.Capacity {
	m := forecast.Capacity{At: c.cluster.Now().Sub(c.began), Desired: c.desired}
	for _, p := range c.pods {
		if p.DeletionTimestamp != nil {
			m.Leaving++
			continue
		}
		m.Total++
		fresh, ready := !c.old[revisionOf(p)], pod.IsReady(p)
		if fresh {
			m.New++
		}
		if ready {
			m.Ready++
		}
		if fresh && ready {
			m.NewReady++
		}
	}
	return m
}

// least is the fewest ready Pods at any moment.
func (c *capacityRecorder) least() *int32 {
	least := c.moments[0].Ready
	for _, m := range c.moments {
		least = min(least, m.Ready)
	}
	return &least
}
