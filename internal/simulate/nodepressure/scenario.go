package nodepressure

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/internal/kubelet/eviction"
)

// Scenario is a node and its Pods as a file has them: see docs/user/node-pressure.md.
type Scenario struct {
	Kind string     `json:"kind,omitempty"` // EvictionScenario, or empty
	Node MixedNode  `json:"node"`
	Pods []MixedPod `json:"pods"`
}

// MixedNode is the node of a mix. Quantities of memory and disks are bytes.
type MixedNode struct {
	Name             string                       `json:"name,omitempty"`
	Capacity         map[string]resource.Quantity `json:"capacity"`            // by signal
	Available        map[string]resource.Quantity `json:"available,omitempty"` // else capacity less what Pods take
	DedicatedImageFs bool                         `json:"dedicatedImageFs,omitempty"`
	SplitImageFs     bool                         `json:"splitImageFs,omitempty"`
	UnusedImages     *resource.Quantity           `json:"unusedImages,omitempty"`
	DeadContainers   *resource.Quantity           `json:"deadContainers,omitempty"`
	Wedged           bool                         `json:"wedged,omitempty"`
}

// MixedPod is a Pod of a mix: in a few figures, or with a whole spec.
type MixedPod struct {
	Name       string                       `json:"name"`
	Namespace  string                       `json:"namespace,omitempty"`
	Priority   *int32                       `json:"priority,omitempty"`
	Critical   bool                         `json:"critical,omitempty"`
	Grace      *int64                       `json:"terminationGracePeriodSeconds,omitempty"`
	Requests   v1.ResourceList              `json:"requests,omitempty"` // of its only container
	Limits     v1.ResourceList              `json:"limits,omitempty"`
	Spec       *v1.PodSpec                  `json:"spec,omitempty"`       // instead of requests and limits
	Unmeasured bool                         `json:"unmeasured,omitempty"` // the node cannot read what it takes
	Use        MixedUse                     `json:"use,omitempty"`
	Growth     map[string]resource.Quantity `json:"growthPerSecond,omitempty"` // memory, layer, logs, processes
	EndsAfter  *metav1.Duration             `json:"endsAfter,omitempty"`
}

// MixedUse is what a Pod takes.
type MixedUse struct {
	Memory    *resource.Quantity           `json:"memory,omitempty"` // working set
	Layer     *resource.Quantity           `json:"layer,omitempty"`  // writable layer
	Logs      *resource.Quantity           `json:"logs,omitempty"`
	Inodes    *resource.Quantity           `json:"inodes,omitempty"` // of writable layer and logs
	Processes *resource.Quantity           `json:"processes,omitempty"`
	Volumes   map[string]resource.Quantity `json:"volumes,omitempty"` // by name; those without a spec are emptyDirs
}

// FieldError is a field of a mix or a setting that cannot be used.
type FieldError struct {
	Field string // pods[1].use.memory, …
	Err   error
}

// Error is FIELD: what is wrong.
func (e *FieldError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap is what is wrong.
func (e *FieldError) Unwrap() error { return e.Err }

func wrong(field, format string, args ...any) error {
	return &FieldError{field, fmt.Errorf(format, args...)}
}

// ReadScenario reads a scenario, strictly: fields that there are not, and twice the same, are
// errors. The node has no Config yet.
func ReadScenario(document []byte) (Node, error) {
	var m Scenario
	raw, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return Node{}, err
	}
	unknown, err := json.UnmarshalStrict(raw, &m)
	if err := errors.Join(append(unknown, err)...); err != nil {
		return Node{}, err
	}
	if m.Kind != "" && m.Kind != "EvictionScenario" {
		return Node{}, wrong("kind", "%q: must be EvictionScenario", m.Kind)
	}
	return m.node()
}

func (m *Scenario) node() (Node, error) {
	n := Node{Name: m.Node.Name, Signals: map[eviction.Signal]Level{}, Wedged: m.Node.Wedged,
		Reclaim: map[eviction.Reclaim]int64{},
		Disks:   eviction.Disks{DedicatedImageFs: m.Node.DedicatedImageFs, SplitImageFs: m.Node.SplitImageFs}}
	for what, q := range map[eviction.Reclaim]*resource.Quantity{eviction.UnusedImages: m.Node.UnusedImages,
		eviction.DeadContainers: m.Node.DeadContainers} {
		if q != nil {
			if q.Sign() < 0 {
				return n, wrong("node."+map[eviction.Reclaim]string{eviction.UnusedImages: "unusedImages",
					eviction.DeadContainers: "deadContainers"}[what], "%s must not be negative", q)
			}
			n.Reclaim[what] = q.Value()
		}
	}
	seen := map[string]bool{}
	for i := range m.Pods {
		field := fmt.Sprintf("pods[%d]", i)
		p, err := m.Pods[i].pod(field)
		if err != nil {
			return n, err
		}
		key := p.Pod.Namespace + "/" + p.Pod.Name
		if seen[key] {
			return n, wrong(field+".name", "%q stands twice", p.Pod.Name)
		}
		seen[key] = true
		n.Pods = append(n.Pods, p)
	}
	return n, m.Node.levels(&n)
}

// levels reads the signals; of one whose available amount is not given it is what Pods leave.
func (m *MixedNode) levels(n *Node) error {
	if len(m.Capacity) == 0 {
		return wrong("node.capacity", "must name at least one signal, such as memory.available")
	}
	for _, signal := range sortedKeys(m.Capacity) {
		q := m.Capacity[signal]
		field := "node.capacity." + signal
		if eviction.Signal(signal).Resource() == "" {
			return wrong(field, "there is no such signal")
		}
		if q.Sign() <= 0 {
			return wrong(field, "%s must be positive", &q)
		}
		l := Level{Capacity: q.Value(), Available: q.Value()}
		for i := range n.Pods {
			l.Available -= amount(eviction.Signal(signal), n.Pods[i].Pod, n.Pods[i].Use, n.Disks)
		}
		l.Available = max(0, l.Available)
		n.Signals[eviction.Signal(signal)] = l
	}
	for _, signal := range sortedKeys(m.Available) {
		q := m.Available[signal]
		field := "node.available." + signal
		l, known := n.Signals[eviction.Signal(signal)]
		switch {
		case !known:
			return wrong(field, "node.capacity has no such signal")
		case q.Sign() < 0:
			return wrong(field, "%s must not be negative", &q)
		case q.Value() > l.Capacity:
			return wrong(field, "%s is more than the capacity", &q)
		}
		l.Available = q.Value()
		n.Signals[eviction.Signal(signal)] = l
	}
	return nil
}

func sortedKeys[T any](m map[string]T) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func (m *MixedPod) pod(field string) (Pod, error) {
	if m.Name == "" || strings.ContainsAny(m.Name, "/ ") {
		return Pod{}, wrong(field+".name", "%q: must be a Pod's name", m.Name)
	}
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: m.Name, Namespace: cmp.Or(m.Namespace, "default")}}
	p.UID = types.UID(p.Namespace + "/" + p.Name)
	switch {
	case m.Spec != nil && (m.Requests != nil || m.Limits != nil):
		return Pod{}, wrong(field+".spec", "excludes requests and limits")
	case m.Spec != nil && len(m.Spec.Containers) == 0:
		return Pod{}, wrong(field+".spec.containers", "must have a container")
	case m.Spec != nil:
		p.Spec = *m.Spec.DeepCopy()
		if err := checkSpec(field+".spec", &p.Spec); err != nil {
			return Pod{}, err
		}
	default:
		c := v1.Container{Name: "app", Resources: v1.ResourceRequirements{Requests: m.Requests.DeepCopy(),
			Limits: m.Limits.DeepCopy()}}
		if err := withLimits(field, &c.Resources); err != nil {
			return Pod{}, err
		}
		p.Spec.Containers = []v1.Container{c}
	}
	if m.Priority != nil {
		p.Spec.Priority = m.Priority
	}
	if m.Critical {
		critical := int32(2_000_000_000)
		p.Spec.Priority = &critical
	}
	if m.Grace != nil && *m.Grace < 0 {
		return Pod{}, wrong(field+".terminationGracePeriodSeconds", "%d must not be negative", *m.Grace)
	}
	if m.Grace != nil {
		p.Spec.TerminationGracePeriodSeconds = m.Grace
	}
	out := Pod{Pod: p}
	if m.EndsAfter != nil {
		if m.EndsAfter.Duration <= 0 {
			return out, wrong(field+".endsAfter", "%s must be positive", m.EndsAfter.Duration)
		}
		out.EndsAfter = m.EndsAfter.Duration
	}
	if err := m.uses(field, &out); err != nil {
		return out, err
	}
	for _, what := range sortedKeys(m.Growth) {
		q := m.Growth[what]
		at := map[string]*int64{"memory": &out.Growth.Memory, "layer": &out.Growth.Layer, "logs": &out.Growth.Logs,
			"processes": &out.Growth.Processes}[what]
		if at == nil {
			return out, wrong(field+".growthPerSecond."+what, "must be memory, layer, logs or processes")
		}
		*at = q.Value()
	}
	return out, nil
}

// checkSpec refuses negative amounts and times of a spec.
func checkSpec(field string, spec *v1.PodSpec) error {
	if g := spec.TerminationGracePeriodSeconds; g != nil && *g < 0 {
		return wrong(field+".terminationGracePeriodSeconds", "%d must not be negative", *g)
	}
	for _, of := range []struct {
		name string
		list []v1.Container
	}{{"initContainers", spec.InitContainers}, {"containers", spec.Containers}} {
		for i, c := range of.list {
			at := fmt.Sprintf("%s.%s[%d].resources", field, of.name, i)
			if err := notNegative(at, &c.Resources); err != nil {
				return err
			}
		}
	}
	return nil
}

// withLimits fills in requests from limits, as the API server does, and checks them.
func withLimits(field string, r *v1.ResourceRequirements) error {
	if err := notNegative(field, r); err != nil {
		return err
	}
	for what, limit := range r.Limits {
		if r.Requests == nil {
			r.Requests = v1.ResourceList{}
		}
		request, set := r.Requests[what]
		if !set {
			r.Requests[what] = limit
		} else if request.Cmp(limit) > 0 {
			return wrong(field+".requests."+string(what), "%s is more than the limit %s", &request, &limit)
		}
	}
	return nil
}

func notNegative(field string, r *v1.ResourceRequirements) error {
	for _, list := range []struct {
		name string
		of   v1.ResourceList
	}{{"requests", r.Requests}, {"limits", r.Limits}} {
		for what, q := range list.of {
			if q.Sign() < 0 {
				return wrong(field+"."+list.name+"."+string(what), "%s must not be negative", &q)
			}
		}
	}
	return nil
}

// uses reads what the Pod takes. All but volumes is its first container's.
func (m *MixedPod) uses(field string, out *Pod) error {
	u := m.Use
	values := map[string]int64{}
	for name, q := range map[string]*resource.Quantity{"memory": u.Memory, "layer": u.Layer, "logs": u.Logs,
		"inodes": u.Inodes, "processes": u.Processes} {
		if q == nil {
			continue
		}
		if q.Sign() < 0 {
			return wrong(field+".use."+name, "%s must not be negative", q)
		}
		values[name] = q.Value()
	}
	memory := values["memory"]
	out.Use = eviction.PodUse{Memory: &memory, Processes: uint64(values["processes"]),
		Volumes: map[string]eviction.Space{},
		Containers: []eviction.ContainerUse{{Name: out.Pod.Spec.Containers[0].Name,
			Memory: &memory, Layer: &eviction.Space{Bytes: values["layer"], Inodes: values["inodes"]},
			Logs: &eviction.Space{Bytes: values["logs"]}}}}
	out.Unmeasured = m.Unmeasured
	for _, name := range sortedKeys(u.Volumes) {
		q := u.Volumes[name]
		if q.Sign() < 0 {
			return wrong(field+".use.volumes."+name, "%s must not be negative", &q)
		}
		out.Use.Volumes[name] = eviction.Space{Bytes: q.Value()}
		known := slices.ContainsFunc(out.Pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == name })
		switch {
		case known:
		case m.Spec != nil:
			return wrong(field+".use.volumes."+name, "the spec has no such volume")
		default:
			out.Pod.Spec.Volumes = append(out.Pod.Spec.Volumes, v1.Volume{Name: name,
				VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}})
		}
	}
	return nil
}
