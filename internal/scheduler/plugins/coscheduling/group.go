package coscheduling

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Label names a Pod's group.
const Label = "scheduling.x-k8s.io/pod-group"

// PodGroups is the resource, Kind its kind.
var (
	PodGroups = schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups"}
	Kind      = PodGroups.GroupVersion().WithKind("PodGroup")
)

// Group is what the plugin reads of a PodGroup (scheduling.x-k8s.io/v1alpha1).
type Group struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status,omitzero"`
}

// Spec is a PodGroup's spec.
type Spec struct {
	MinMember              int32           `json:"minMember,omitempty"`
	MinResources           v1.ResourceList `json:"minResources,omitempty"`
	ScheduleTimeoutSeconds *int32          `json:"scheduleTimeoutSeconds,omitempty"`
}

// ReadGroup reads a PodGroup from what the dynamic client returns. Fields that it does not know are
// left out; a field of another type is an error.
func ReadGroup(content map[string]any) (*Group, error) {
	g := &Group{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, g); err != nil {
		return nil, err
	}
	return g, nil
}

// Args are CoschedulingArgs.
type Args struct {
	metav1.TypeMeta `json:",inline"`

	// how long placed members wait for the others, unless the group says; default 60
	PermitWaitingTimeSeconds *int64 `json:"permitWaitingTimeSeconds,omitempty"`
	// for how long a group that was rejected is not tried; default 0
	PodGroupBackoffSeconds *int64 `json:"podGroupBackoffSeconds,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (a *Args) DeepCopyObject() runtime.Object {
	if a == nil {
		return nil
	}
	c := &Args{TypeMeta: a.TypeMeta}
	for to, from := range map[**int64]*int64{&c.PermitWaitingTimeSeconds: a.PermitWaitingTimeSeconds,
		&c.PodGroupBackoffSeconds: a.PodGroupBackoffSeconds} {
		if from != nil {
			v := *from
			*to = &v
		}
	}
	return c
}

// Complete fills in defaults.
func (a *Args) Complete() {
	if a.PermitWaitingTimeSeconds == nil {
		a.PermitWaitingTimeSeconds = new(int64(60))
	}
	if a.PodGroupBackoffSeconds == nil {
		a.PodGroupBackoffSeconds = new(int64(0))
	}
}

// Check finds what is wrong.
func (a *Args) Check(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s := *a.PermitWaitingTimeSeconds; s < 0 {
		errs = append(errs, field.Invalid(path.Child("permitWaitingTimeSeconds"), s,
			"must be greater than or equal to 0"))
	}
	if s := *a.PodGroupBackoffSeconds; s < 0 {
		errs = append(errs, field.Invalid(path.Child("podGroupBackoffSeconds"), s,
			"must be greater than or equal to 0"))
	}
	return errs
}

// permitTimeout is how long placed members of a group wait for the others.
func (p *Plugin) permitTimeout(g *Group) time.Duration {
	if s := g.Spec.ScheduleTimeoutSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return time.Duration(*p.args.PermitWaitingTimeSeconds) * time.Second
}
