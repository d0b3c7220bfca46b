package pods

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/test/wrappers"
)

func timeAt(seconds int64) metav1.Time { return metav1.NewTime(time.Unix(1_700_000_000+seconds, 0)) }

// podOf is a created Pod with one container.
func podOf(edit ...func(*v1.Pod)) *v1.Pod {
	p := wrappers.MakePod().Namespace("ns").Name("p").ResourceVersion("7").
		Container("c", "nginx:1.27").Obj()
	for _, e := range edit {
		e(p)
	}
	Default(p)
	status := p.Status
	PrepareCreate(p, timeAt(0))
	if status.Phase == "" {
		status.Phase = v1.PodPending
	}
	if status.QOSClass = p.Status.QOSClass; len(status.Conditions) == 0 {
		status.Conditions = p.Status.Conditions
	}
	p.Status = status
	return p
}

// row: API-08
// row: API-36
// row: API-37
// row: PST-02
// row: SCH-33
func TestPrepareCreate(t *testing.T) {
	p := podOf(func(p *v1.Pod) {
		p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/a"}}
		p.Spec.TerminationGracePeriodSeconds = new(int64(-5))
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "d", Image: "nginx"},
			v1.Container{Name: "e", Image: "a@sha256:" + strings.Repeat("a", 64)})
	})
	p.Status.PodIP, p.Status.Phase = "1.2.3.4", v1.PodRunning
	PrepareCreate(p, timeAt(0))
	if p.Status.Phase != v1.PodPending || p.Status.QOSClass != v1.PodQOSBestEffort || p.Status.PodIP != "" {
		t.Errorf("status %+v", p.Status)
	}
	ungated := podOf()
	ungated.Status = v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{{Type: v1.PodScheduled,
		Status: v1.ConditionTrue}}}
	PrepareCreate(ungated, timeAt(0))
	if s := ungated.Status; s.Phase != v1.PodPending || len(s.Conditions) != 0 {
		t.Errorf("without gates: phase %s, conditions %+v, want Pending and none", s.Phase, s.Conditions)
	}
	if c := p.Status.Conditions; len(c) != 1 || c[0].Type != v1.PodScheduled || c[0].Status != v1.ConditionFalse ||
		c[0].Reason != "SchedulingGated" ||
		c[0].Message != "Scheduling is blocked due to non-empty scheduling gates" {
		t.Errorf("conditions %+v", c)
	}
	if p.Generation != 1 || p.Spec.SchedulerName != "default-scheduler" || *p.Spec.TerminationGracePeriodSeconds != 1 {
		t.Errorf("generation %d, scheduler %s, grace %d", p.Generation, p.Spec.SchedulerName,
			*p.Spec.TerminationGracePeriodSeconds)
	}
	var policies []v1.PullPolicy
	for _, c := range p.Spec.Containers {
		policies = append(policies, c.ImagePullPolicy)
	}
	if policies[0] != v1.PullIfNotPresent || policies[1] != v1.PullAlways || policies[2] != v1.PullIfNotPresent {
		t.Errorf("pull policies %v", policies)
	}
}

// causes are field and message of each error.
func causes(errs field.ErrorList) string {
	var out []string
	for _, e := range errs {
		body, _, _ := strings.Cut(e.ErrorBody(), "\n")
		out = append(out, e.Field+": "+body)
	}
	return strings.Join(out, "; ")
}

func plainContainer(name string) v1.Container {
	return v1.Container{Name: name, Image: "nginx:1", TerminationMessagePolicy: "File", ImagePullPolicy: "Always"}
}

// twoInits gives a Pod two init containers, changed.
func twoInits(change func([]v1.Container)) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.InitContainers = []v1.Container{plainContainer("one"), plainContainer("two")}
		change(p.Spec.InitContainers)
	}
}

func tolerations(all ...v1.Toleration) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Tolerations = all }
}

const noToleration = "spec.tolerations: Forbidden: existing toleration can not be modified except its " +
	"tolerationSeconds"

const noOther = "spec: Forbidden: pod updates may not change fields other than " + updatableFieldsMessage

// Whether a Pod is a mirror stays as it was made, through whichever endpoint it is written: without
// the annotation a kubelet would take the mirror for a Pod of the API and run it.
//
// row: STA-04
func TestAMirrorStaysAMirror(t *testing.T) {
	const key = v1.MirrorPodAnnotationKey
	with := func(value string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			if value != "" {
				p.Annotations = map[string]string{key: value}
			}
		}
	}
	for _, c := range []struct{ was, is, want string }{
		{"hash", "hash", ""},
		{"hash", "", "may not remove or update mirror pod annotation"},
		{"hash", "other", "may not remove or update mirror pod annotation"},
		{"", "hash", "may not add mirror pod annotation"},
	} {
		for endpoint, validate := range map[string]func(p, old *v1.Pod) field.ErrorList{"pods": ValidateUpdate,
			"status": ValidateStatusUpdate, "ephemeralcontainers": ephemeralContainersRules{}.validate,
			"resize": resizeRules{}.validate} {
			if c.was != "" && (endpoint == "ephemeralcontainers" || endpoint == "resize") {
				continue // they refuse mirrors altogether
			}
			old := podOf(with(c.was), func(p *v1.Pod) { p.Spec.NodeName = "n1" })
			now := old.DeepCopy()
			now.Annotations = nil
			with(c.is)(now)
			got := ""
			for _, err := range validate(now, old) {
				if strings.Contains(err.Field, key) {
					got += err.Detail
				}
			}
			if got != c.want {
				t.Errorf("%s, from %q to %q: got %q, want %q", endpoint, c.was, c.is, got, c.want)
			}
		}
	}
}

// row: API-25
// row: API-26
// row: API-27
// row: BND-07
// row: ISE-10
// row: ISE-27
// row: ISE-32
func TestUpdateRules(t *testing.T) {
	n := func(v int64) *int64 { return &v }
	first := func(change func(*v1.Container)) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Name: "first", Image: "nginx:1", TerminationMessagePolicy: "File",
				ImagePullPolicy: "Always"}}
			change(&p.Spec.InitContainers[0])
		}
	}
	for _, c := range []struct {
		name     string
		old, new func(*v1.Pod)
		want     string
	}{
		{name: "image", new: func(p *v1.Pod) { p.Spec.Containers[0].Image = "nginx:2" }},
		{name: "image of an init container",
			old: func(p *v1.Pod) { p.Spec.InitContainers = []v1.Container{{Name: "i", Image: "busybox:1"}} },
			new: func(p *v1.Pod) { p.Spec.InitContainers = []v1.Container{{Name: "i", Image: "busybox:2"}} }},
		{name: "images of all init containers",
			old: twoInits(func([]v1.Container) {}),
			new: twoInits(func(c []v1.Container) { c[0].Image, c[1].Image = "nginx:2", "nginx:3" })},
		{name: "image of the second init container",
			old: twoInits(func([]v1.Container) {}), new: twoInits(func(c []v1.Container) { c[1].Image = "nginx:2" })},
		{name: "command of the second init container",
			old: twoInits(func([]v1.Container) {}),
			new: twoInits(func(c []v1.Container) { c[1].Command = []string{"sh"} }), want: noOther},
		{name: "image of the second container",
			old: func(p *v1.Pod) { p.Spec.Containers = append(p.Spec.Containers, plainContainer("second")) },
			new: func(p *v1.Pod) {
				c := plainContainer("second")
				c.Image = "nginx:2"
				p.Spec.Containers = append(p.Spec.Containers, c)
			}},
		{name: "env of an init container", old: first(func(*v1.Container) {}),
			new:  first(func(c *v1.Container) { c.Env = []v1.EnvVar{{Name: "A", Value: "1"}} }),
			want: noOther},
		{name: "ephemeral container", new: func(p *v1.Pod) { p.Spec.EphemeralContainers = debuggers("debugger") },
			want: noOther},
		{name: "env", new: func(p *v1.Pod) { p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "A", Value: "1"}} },
			want: noOther},
		{name: "command", new: func(p *v1.Pod) { p.Spec.Containers[0].Command = []string{"sh"} }, want: noOther},
		{name: "command of an init container",
			old: func(p *v1.Pod) { p.Spec.InitContainers = []v1.Container{{Name: "i", Image: "busybox:1"}} },
			new: func(p *v1.Pod) {
				p.Spec.InitContainers = []v1.Container{{Name: "i", Image: "busybox:1", Command: []string{"sh"}}}
			}, want: noOther},
		{name: "env of the second container",
			old: func(p *v1.Pod) { p.Spec.Containers = append(p.Spec.Containers, plainContainer("second")) },
			new: func(p *v1.Pod) {
				c := plainContainer("second")
				c.Env = []v1.EnvVar{{Name: "A", Value: "1"}}
				p.Spec.Containers = append(p.Spec.Containers, c)
			}, want: noOther},
		{name: "image, to none", new: func(p *v1.Pod) { p.Spec.Containers[0].Image = "" },
			want: "spec.containers[0].image: Required value; spec.containers[0].image: Required value"},
		{name: "restart policy", new: func(p *v1.Pod) { p.Spec.RestartPolicy = v1.RestartPolicyNever }, want: noOther},
		{name: "node selector of a Pod without gates",
			new: func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"} }, want: noOther},
		{name: "grace period", new: func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = n(1) }, want: noOther},
		{name: "priority", new: func(p *v1.Pod) { p.Spec.Priority = new(int32(5)) }, want: noOther},
		{name: "another node", old: func(p *v1.Pod) { p.Spec.NodeName = "a" },
			new: func(p *v1.Pod) { p.Spec.NodeName = "b" }, want: noOther},
		{name: "one more container", new: func(p *v1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers,
				v1.Container{Name: "d", Image: "x", TerminationMessagePolicy: "File", ImagePullPolicy: "Always"})
		}, want: "spec.containers: Forbidden: pod updates may not add or remove containers"},
		{name: "deadline set", new: func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = n(10) }},
		{name: "deadline shortened", old: func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = n(10) },
			new: func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = n(5) }},
		{name: "deadline kept", old: func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = n(10) },
			new: func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = n(10) }},
		{name: "deadline shortened to one second", old: func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = n(2) },
			new: func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = n(1) }},
		{name: "the longest deadline set", new: func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = n(2147483647) }},
		{name: "a longer one set", new: func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = n(2147483648) },
			want: "spec.activeDeadlineSeconds: Invalid value: 2147483648: must be between 1 and 2147483647, inclusive" +
				"; spec.activeDeadlineSeconds: Invalid value: 2147483648: must be between 0 and 2147483647, inclusive"},
		{name: "deadline lengthened", old: func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = n(10) },
			new:  func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = n(11) },
			want: "spec.activeDeadlineSeconds: Invalid value: 11: must be less than or equal to previous value"},
		{name: "deadline lifted", old: func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = n(10) },
			want: "spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil " +
				"value"},
		{name: "toleration added",
			new: func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{{Key: "k", Operator: v1.TolerationOpExists}} }},
		{name: "toleration removed",
			old:  func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{{Key: "k", Operator: v1.TolerationOpExists}} },
			want: "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"},
		{name: "toleration edited",
			old:  func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{{Key: "k", Operator: v1.TolerationOpExists}} },
			new:  func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{{Key: "k", Value: "v"}} },
			want: "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"},
		{name: "toleration added beside another", old: tolerations(v1.Toleration{Key: "k", Value: "v"}),
			new: tolerations(v1.Toleration{Key: "a", Value: "v"}, v1.Toleration{Key: "k", Value: "v"})},
		{name: "another order of tolerations",
			old: tolerations(v1.Toleration{Key: "k", Value: "v"}, v1.Toleration{Key: "l", Value: "v"}),
			new: tolerations(v1.Toleration{Key: "l", Value: "v"}, v1.Toleration{Key: "k", Value: "v"})},
		{name: "seconds of a toleration",
			old: tolerations(v1.Toleration{Key: "k", Value: "v", Effect: "NoExecute", TolerationSeconds: n(5)}),
			new: tolerations(v1.Toleration{Key: "k", Value: "v", Effect: "NoExecute", TolerationSeconds: n(7)})},
		{name: "value of a toleration", old: tolerations(v1.Toleration{Key: "k", Value: "v"}),
			new: tolerations(v1.Toleration{Key: "k", Value: "w"}), want: noToleration},
		{name: "key of a toleration", old: tolerations(v1.Toleration{Key: "k", Value: "v"}),
			new: tolerations(v1.Toleration{Key: "l", Value: "v"}), want: noToleration},
		{name: "effect of a toleration", old: tolerations(v1.Toleration{Key: "k", Value: "v", Effect: "NoSchedule"}),
			new: tolerations(v1.Toleration{Key: "k", Value: "v"}), want: noToleration},
		{name: "operator of a toleration", old: tolerations(v1.Toleration{Key: "k"}),
			new: tolerations(v1.Toleration{Key: "k", Operator: v1.TolerationOpExists}), want: noToleration},
		{name: "the second toleration edited",
			old:  tolerations(v1.Toleration{Key: "k", Value: "v"}, v1.Toleration{Key: "l", Value: "v"}),
			new:  tolerations(v1.Toleration{Key: "k", Value: "v"}, v1.Toleration{Key: "l", Value: "w"}),
			want: noToleration},
		{name: "one edited, one added", old: tolerations(v1.Toleration{Key: "k", Value: "v"}),
			new:  tolerations(v1.Toleration{Key: "k", Value: "w"}, v1.Toleration{Key: "l", Value: "v"}),
			want: noToleration},
		{name: "one of two tolerations removed",
			old: func(p *v1.Pod) {
				p.Spec.Tolerations = []v1.Toleration{{Key: "k", Operator: v1.TolerationOpExists},
					{Key: "l", Operator: v1.TolerationOpExists}}
			},
			new:  func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{{Key: "k", Operator: v1.TolerationOpExists}} },
			want: "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"},
		{name: "gate removed", old: func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "a"}} }},
		{name: "gate added", new: func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "a"}} },
			want: "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate " +
				"'a'"},
		{name: "gated, selector narrowed",
			old: func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "a"}} },
			new: func(p *v1.Pod) {
				p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "a"}}
				p.Spec.NodeSelector = map[string]string{"a": "b"}
			}},
		{name: "gated, affinity set",
			old: func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "a"}} },
			new: func(p *v1.Pod) {
				p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "a"}}
				p.Spec.Affinity = &v1.Affinity{
					NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
						NodeSelectorTerms: []v1.NodeSelectorTerm{
							{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "k", Operator: "Exists"}}}},
					}}}
			}},
		{name: "deadline of no seconds", new: func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = n(-1) },
			want: "spec.activeDeadlineSeconds: Invalid value: -1: must be between 1 and 2147483647, inclusive; " +
				"spec.activeDeadlineSeconds: Invalid value: -1: must be between 0 and 2147483647, inclusive"},
	} {
		t.Run(c.name, func(t *testing.T) {
			edit := func(f func(*v1.Pod)) func(*v1.Pod) {
				if f == nil {
					return func(*v1.Pod) {}
				}
				return f
			}
			old, now := podOf(edit(c.old)), podOf(edit(c.new))
			if got := causes(ValidateUpdate(now, old)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// Every field of the spec, of a container and of an init container stays as it is, but those that
// TestUpdateRules tells of.
//
// row: API-25
func TestNoOtherFieldMayChange(t *testing.T) {
	fields := func(of any, allowed ...string) (out []string) {
		for f := range reflect.TypeOf(of).Fields() {
			if !slices.Contains(allowed, f.Name) {
				out = append(out, f.Name)
			}
		}
		return out
	}
	base := podOf(twoInits(func([]v1.Container) {}), func(p *v1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, plainContainer("second"))
	})
	changed := func(of func(*v1.Pod) any, field string) *v1.Pod {
		p := base.DeepCopy()
		v := reflect.ValueOf(of(p)).Elem().FieldByName(field)
		switch v.Kind() {
		case reflect.String:
			v.SetString(v.String() + "x")
		case reflect.Bool:
			v.SetBool(!v.Bool())
		case reflect.Int32, reflect.Int64:
			v.SetInt(v.Int() + 1)
		case reflect.Pointer:
			if was := v.Elem(); was.IsValid() && was.IsZero() {
				v.SetZero()
			} else {
				v.Set(reflect.New(v.Type().Elem()))
			}
		case reflect.Slice:
			v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
		case reflect.Map:
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem())
		case reflect.Struct: // resources
			v.FieldByName("Claims").Set(reflect.ValueOf([]v1.ResourceClaim{{Name: "x"}}))
		default:
			t.Fatalf("%s is a %s, which this test does not know to change", field, v.Kind())
		}
		return p
	}
	spec := func(p *v1.Pod) any { return &p.Spec }
	for _, field := range fields(v1.PodSpec{}, "Containers", "InitContainers", "ActiveDeadlineSeconds", "Tolerations",
		"SchedulingGates") {
		if got := causes(ValidateUpdate(changed(spec, field), base)); !strings.Contains(got, noOther) {
			t.Errorf("spec.%s: got %q, want it with %q", field, got, noOther)
		}
	}
	for list, of := range map[string]func(*v1.Pod) any{
		"containers[0]":     func(p *v1.Pod) any { return &p.Spec.Containers[0] },
		"containers[1]":     func(p *v1.Pod) any { return &p.Spec.Containers[1] },
		"initContainers[0]": func(p *v1.Pod) any { return &p.Spec.InitContainers[0] },
		"initContainers[1]": func(p *v1.Pod) any { return &p.Spec.InitContainers[1] },
	} {
		for _, field := range fields(v1.Container{}, "Image") {
			if got := causes(ValidateUpdate(changed(of, field), base)); !strings.Contains(got, noOther) {
				t.Errorf("spec.%s.%s: got %q, want it with %q", list, field, got, noOther)
			}
		}
		if got := causes(ValidateUpdate(changed(of, "Image"), base)); got != "" {
			t.Errorf("spec.%s.image: got %q, want nothing", list, got)
		}
	}
}

func debuggers(names ...string) (out []v1.EphemeralContainer) {
	for _, n := range names {
		out = append(out, v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: n,
			Image: "debug:1", TerminationMessagePolicy: "File", ImagePullPolicy: "Always"}})
	}
	return out
}

// Ephemeral containers are added, and stay as they were added.
//
// row: ISE-27
// row: ISE-28
func TestEphemeralContainersRules(t *testing.T) {
	edit := func(change func(*v1.EphemeralContainer)) []v1.EphemeralContainer {
		list := debuggers("a", "b")
		change(&list[1])
		return list
	}
	const changed = `spec.ephemeralContainers: Forbidden: existing ephemeral containers "b" may not be changed`
	const removed = `spec.ephemeralContainers: Forbidden: existing ephemeral containers "b" may not be removed`
	for _, c := range []struct {
		name string
		list []v1.EphemeralContainer
		want string
	}{
		{"nothing", debuggers("a", "b"), ""},
		{"one more", debuggers("a", "b", "d"), ""},
		{"another order", debuggers("b", "a"), ""},
		{"image", edit(func(e *v1.EphemeralContainer) { e.Image = "other:1" }), changed},
		{"command", edit(func(e *v1.EphemeralContainer) { e.Command = []string{"sh"} }), changed},
		{"env", edit(func(e *v1.EphemeralContainer) { e.Env = []v1.EnvVar{{Name: "A", Value: "1"}} }), changed},
		{"tty", edit(func(e *v1.EphemeralContainer) { e.TTY = true }), changed},
		{"target", edit(func(e *v1.EphemeralContainer) { e.TargetContainerName = "c" }), changed},
		{"securityContext", edit(func(e *v1.EphemeralContainer) {
			e.SecurityContext = &v1.SecurityContext{Privileged: new(true)}
		}), changed},
		{"renamed", debuggers("a", "d"), removed},
		{"dropped", debuggers("a"), removed},
		{"dropped, another added", debuggers("a", "d"), removed},
	} {
		old := podOf(func(p *v1.Pod) { p.Spec.EphemeralContainers = debuggers("a", "b") })
		now := podOf(func(p *v1.Pod) { p.Spec.EphemeralContainers = c.list })
		got := causes(ephemeralContainersRules{}.validate(now, old))
		if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	// What else such a request says of the Pod is not written, and the main endpoint takes none at
	// its creation.
	old, now := podOf(), podOf(func(p *v1.Pod) { p.Spec.EphemeralContainers = debuggers("a") })
	now.Spec.Containers[0].Image, now.Labels = "other:1", map[string]string{"a": "b"}
	ephemeralContainersRules{}.prepareForUpdate(now, old)
	if got := now.Spec.EphemeralContainers; len(got) != 1 || now.Spec.Containers[0].Image == "other:1" ||
		len(now.Labels) != len(old.Labels) {
		t.Errorf("got %+v of %+v, want the stored Pod with one ephemeral container", now, old)
	}
	if got := causes(
		Validate(podOf(func(p *v1.Pod) { p.Spec.EphemeralContainers = debuggers("a") }))); !strings.Contains(
		got, "spec.ephemeralContainers: Forbidden: cannot be set on create") {
		t.Errorf("at creation: got %q, want cannot be set on create", got)
	}
}

// What is asked of a container by name is asked of any of the Pod's, also of one that runs before
// the others.
//
// row: ISE-18
func TestContainerByName(t *testing.T) {
	p := podOf(func(p *v1.Pod) {
		p.Spec.InitContainers = []v1.Container{{Name: "init-myservice", Image: "i"}, {Name: "init-mydb", Image: "i"}}
		p.Spec.EphemeralContainers = debuggers("debugger")
	})
	for _, c := range []struct{ name, want, err string }{
		{"", p.Spec.Containers[0].Name, ""}, {"init-myservice", "init-myservice", ""}, {"init-mydb", "init-mydb", ""},
		{"debugger", "debugger", ""}, {"nosuch", "", "container nosuch is not valid for pod " + p.Name},
	} {
		got, err := container(p, c.name)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("%q: got %q, %v, want %q, %q", c.name, got, err, c.want, c.err)
		}
	}
}

// row: API-28
// row: API-40
func TestNamesAndSystem(t *testing.T) {
	p := podOf(func(p *v1.Pod) {
		p.Spec.InitContainers = []v1.Container{{Name: "c", Image: "x"}}
		p.Spec.OS = &v1.PodOS{Name: "darwin"}
	})
	want := `spec.initContainers[0].name: Duplicate value: "c"; spec.os: Unsupported value: "darwin": supported ` +
		`values: "linux", "windows"`
	if got := causes(Validate(p)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, system := range []v1.OSName{v1.Linux, v1.Windows} {
		p = podOf(func(p *v1.Pod) { p.Spec.OS = &v1.PodOS{Name: system} })
		if got := causes(Validate(p)); got != "" {
			t.Errorf("system %s: got %s, want nothing", system, got)
		}
	}
	twins := []v1.Container{{Name: "c", Image: "x"}, {Name: "c", Image: "x"}}
	apart := podOf(func(p *v1.Pod) {
		p.Spec.Containers = []v1.Container{plainContainer("c"), plainContainer("d"), plainContainer("c")}
	})
	if got, want := causes(Validate(apart)), `spec.containers[2].name: Duplicate value: "c"`; got != want {
		t.Errorf("the first and the third of one name: got %s, want %s", got, want)
	}
	for path, edit := range map[string]func(*v1.Pod){
		"containers":     func(p *v1.Pod) { p.Spec.Containers = twins },
		"initContainers": func(p *v1.Pod) { p.Spec.InitContainers, p.Spec.Containers[0].Name = twins, "app" },
	} {
		if got, want := causes(Validate(podOf(edit))), "spec."+path+`[1].name: Duplicate value: "c"`; got != want {
			t.Errorf("two %s of one name: got %s, want %s", path, got, want)
		}
	}
	for at, inits := range map[string][]string{"spec.initContainers[0]": {"second", "i"},
		"spec.initContainers[1]": {"i", "second"}, "spec.initContainers[2]": {"i", "j", "i"}} {
		p = podOf(func(p *v1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, plainContainer("second"))
			for _, name := range inits {
				p.Spec.InitContainers = append(p.Spec.InitContainers, plainContainer(name))
			}
		})
		if got, want := causes(Validate(p)), at+".name: Duplicate value: "; !strings.HasPrefix(got, want) {
			t.Errorf("init containers %v: got %s, want %s", inits, got, want)
		}
	}
	for _, system := range []v1.OSName{"Linux", "WINDOWS", "plan9", ""} {
		p = podOf(func(p *v1.Pod) { p.Spec.OS = &v1.PodOS{Name: system} })
		if got := causes(Validate(p)); !strings.HasPrefix(got, "spec.os") {
			t.Errorf("system %q: got %q, want it refused", system, got)
		}
	}
}

// The options of a system that the Pod is not for are refused.
//
// row: SEC-04
func TestOptionsOfTheOtherSystem(t *testing.T) {
	windows := &v1.WindowsSecurityContextOptions{HostProcess: new(true)}
	const linuxPod = "Forbidden: windows options cannot be set for a linux pod"
	for _, c := range []struct {
		name string
		edit func(*v1.Pod)
		want string
	}{
		{"of a Linux Pod", func(p *v1.Pod) {
			p.Spec.OS = &v1.PodOS{Name: v1.Linux}
			p.Spec.SecurityContext = &v1.PodSecurityContext{WindowsOptions: windows}
		}, "spec.securityContext.windowsOptions: " + linuxPod},
		{"of a container of a Linux Pod", func(p *v1.Pod) {
			p.Spec.OS = &v1.PodOS{Name: v1.Linux}
			p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{WindowsOptions: windows}
		}, "spec.containers[0].securityContext.windowsOptions: " + linuxPod},
		{"Linux options of a Windows Pod", func(p *v1.Pod) {
			p.Spec.OS = &v1.PodOS{Name: v1.Windows}
			p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{RunAsUser: new(int64(1))}
		}, "spec.containers[0].securityContext.runAsUser: Forbidden: cannot be set for a windows pod"},
	} {
		if got := causes(Validate(podOf(c.edit))); !strings.Contains(got, c.want) {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
	// Each container of each list is looked at, whatever the others have.
	plain := v1.Container{Image: "x", TerminationMessagePolicy: "File", ImagePullPolicy: "Always"}
	for path, of := range map[string]func(*v1.PodSpec) **v1.SecurityContext{
		"containers[1]":     func(s *v1.PodSpec) **v1.SecurityContext { return &s.Containers[1].SecurityContext },
		"initContainers[0]": func(s *v1.PodSpec) **v1.SecurityContext { return &s.InitContainers[0].SecurityContext },
		"initContainers[1]": func(s *v1.PodSpec) **v1.SecurityContext { return &s.InitContainers[1].SecurityContext },
		"ephemeralContainers[1]": func(s *v1.PodSpec) **v1.SecurityContext {
			return &s.EphemeralContainers[1].SecurityContext
		},
	} {
		for system, c := range map[v1.OSName]struct {
			options *v1.SecurityContext
			want    string
		}{
			v1.Linux: {&v1.SecurityContext{WindowsOptions: windows}, "windowsOptions: " + linuxPod},
			v1.Windows: {&v1.SecurityContext{RunAsUser: new(int64(1))},
				"runAsUser: Forbidden: cannot be set for a windows pod"},
		} {
			got := causes(Validate(podOf(func(p *v1.Pod) {
				p.Spec.OS = &v1.PodOS{Name: system}
				second, one, two := plain, plain, plain
				second.Name, one.Name, two.Name = "second", "one", "two"
				p.Spec.Containers = append(p.Spec.Containers, second)
				p.Spec.InitContainers = []v1.Container{one, two}
				p.Spec.EphemeralContainers = debuggers("three", "four")
				*of(&p.Spec) = c.options
			})))
			if want := "spec." + path + ".securityContext." + c.want; !strings.Contains(got, want) {
				t.Errorf("%s Pod: got %s, want %s", system, got, want)
			}
		}
	}
}

// A Pod with users of its own shares no other namespace with the host.
//
// row: UNS-09
func TestUserNamespacesShareNothingWithTheHost(t *testing.T) {
	for path, edit := range map[string]func(*v1.PodSpec){
		"spec.hostNetwork": func(s *v1.PodSpec) { s.HostNetwork = true },
		"spec.HostPID":     func(s *v1.PodSpec) { s.HostPID = true }, // upstream's spelling
		"spec.HostIPC":     func(s *v1.PodSpec) { s.HostIPC = true },
	} {
		for _, hostUsers := range []*bool{nil, new(true), new(false)} {
			want := ""
			if hostUsers != nil && !*hostUsers {
				want = path + ": Forbidden: when `hostUsers` is false"
			}
			p := podOf(func(p *v1.Pod) {
				p.Spec.HostUsers = hostUsers
				edit(&p.Spec)
			})
			if got := causes(Validate(p)); (got == "") != (want == "") || !strings.Contains(got, want) {
				t.Errorf("%s with hostUsers %v: got %q, want %q", path, hostUsers, got, want)
			}
		}
	}
}

// A readiness gate is a condition's type, whose format is a label key's.
//
// row: API-21
func TestReadinessGatesAreLabelKeys(t *testing.T) {
	for gate, want := range map[v1.PodConditionType]string{"example.com/a": "", "a": "",
		"a b": `spec.readinessGates[0].conditionType: Invalid value: "a b": name part must consist of`,
		"-/x": `spec.readinessGates[0].conditionType: Invalid value: "-/x": prefix part`} {
		p := podOf(func(p *v1.Pod) { p.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: gate}} })
		if got := causes(Validate(p)); (want == "") != (got == "") || !strings.HasPrefix(got, want) {
			t.Errorf("gate %q: got %s, want %s", gate, got, want)
		}
	}
	p := podOf(func(p *v1.Pod) {
		p.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "a"}, {ConditionType: "b c"}}
	})
	want := `spec.readinessGates[1].conditionType: Invalid value: "b c"`
	if got := causes(Validate(p)); !strings.HasPrefix(got, want) {
		t.Errorf("the second gate: got %s, want %s", got, want)
	}
}

// The creator of a Pod whose name is no label is told that one is advised; the name is accepted.
//
// row: API-29
func TestALabelIsAdvisedAsName(t *testing.T) {
	for name, want := range map[string]bool{"a": false, "a.b": true, strings.Repeat("a", 63): false,
		strings.Repeat("a", 64): true, "7-b": false} {
		got := false
		for _, w := range warn(context.Background(), podOf(func(p *v1.Pod) { p.Name = name })) {
			got = got || strings.Contains(w, "metadata.name: ") && strings.Contains(w, "a DNS label is recommended")
		}
		if got != want {
			t.Errorf("name %s: advised %t, want %t", name, got, want)
		}
	}
}

// row: API-05
// row: API-36
// row: API-37
func TestDefaults(t *testing.T) {
	p := podOf()
	if p.Spec.RestartPolicy != v1.RestartPolicyAlways || *p.Spec.TerminationGracePeriodSeconds != 30 {
		t.Errorf("got %s, %d s, want Always, 30 s", p.Spec.RestartPolicy, *p.Spec.TerminationGracePeriodSeconds)
	}
	for _, policy := range []v1.RestartPolicy{v1.RestartPolicyNever, v1.RestartPolicyOnFailure} {
		for _, grace := range []int64{0, 1, 45} { // what is set stays
			p = podOf(func(p *v1.Pod) {
				p.Spec.RestartPolicy, p.Spec.TerminationGracePeriodSeconds = policy, &grace
				p.Spec.SchedulerName = "own"
				p.Spec.InitContainers = []v1.Container{{Name: "i", Image: "nginx:latest"},
					{Name: "j", Image: "nginx:1", ImagePullPolicy: v1.PullNever}}
				p.Spec.Containers = []v1.Container{
					{Name: "a", Image: "nginx:latest", ImagePullPolicy: v1.PullIfNotPresent},
					{Name: "b", Image: "nginx:latest"}, {Name: "c", Image: "localhost:5000/nginx"}}
			})
			if p.Spec.RestartPolicy != policy || *p.Spec.TerminationGracePeriodSeconds != grace ||
				p.Spec.SchedulerName != "own" {
				t.Errorf("got %s, %d s, scheduler %s, want %s, %d s, own", p.Spec.RestartPolicy,
					*p.Spec.TerminationGracePeriodSeconds, p.Spec.SchedulerName, policy, grace)
			}
			var pulls []v1.PullPolicy
			for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
				pulls = append(pulls, c.ImagePullPolicy)
			}
			if want := []v1.PullPolicy{v1.PullAlways, v1.PullNever, v1.PullIfNotPresent, v1.PullAlways,
				v1.PullAlways}; !slices.Equal(pulls, want) {
				t.Errorf("pull policies %v, want %v", pulls, want)
			}
		}
	}
}

// row: API-21
func TestStatusRules(t *testing.T) {
	old := podOf()
	now := old.DeepCopy()
	now.Status.Conditions = []v1.PodCondition{{Type: "a b", Status: v1.ConditionTrue},
		{Type: "example.com/a", Status: v1.ConditionTrue}}
	now.Status.QOSClass = v1.PodQOSGuaranteed
	long := v1.PodConditionType(strings.Repeat("a", 64))
	for i, bad := range []v1.PodConditionType{"", "a b", "-/x", "a/b/c", "example.com/", long} {
		late := old.DeepCopy()
		late.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue},
			{Type: "example.com/a", Status: v1.ConditionTrue}, {Type: bad, Status: v1.ConditionTrue}}
		got := causes(ValidateStatusUpdate(late, old))
		if !strings.HasPrefix(got, "status.conditions[2].Type: Invalid") {
			t.Errorf("the third condition %d, %q: got %q, want it refused", i, bad, got)
		}
	}
	got := causes(ValidateStatusUpdate(now, old))
	if !strings.HasPrefix(got, `status.conditions[0].Type: Invalid value: "a b": name part must consist of`) ||
		!strings.HasSuffix(got, `status.qosClass: Invalid value: "Guaranteed": field is immutable`) {
		t.Errorf(`got %v, want it beginning with 'status.conditions[0].Type: Invalid value: "a b": name …' and it `+
			`ending in 'status.qosClass: Invalid value: "Guaranteed": field is…'`, got)
	}
}

// TestStatusKeeps: what a status update leaves alone, and addresses that agree.
//
// row: API-19
func TestStatusKeeps(t *testing.T) {
	old := podOf(func(p *v1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Name: "rs"}} })
	now := old.DeepCopy()
	now.Spec.NodeName, now.OwnerReferences, now.Status.QOSClass = "n", nil, ""
	now.Status.PodIP, now.Status.PodIPs = "10.0.0.1", []v1.PodIP{{IP: "10.0.0.2"}}
	PrepareStatus(now, old)
	if now.Spec.NodeName != "" || len(now.OwnerReferences) != 1 || now.Status.QOSClass != v1.PodQOSBestEffort ||
		now.Status.PodIPs[0].IP != "10.0.0.1" {
		t.Errorf("got %+v, want NodeName empty, 1 in OwnerReferences, QOSClass PodQOSBestEffort and IP 10.0.0.1", now)
	}
	old.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "a"}}
	for _, c := range []struct {
		written []v1.PodResourceClaimStatus
		want    int
	}{{nil, 1}, {[]v1.PodResourceClaimStatus{}, 0}} {
		now.Status.ResourceClaimStatuses = c.written
		PrepareStatus(now, old)
		if got := len(now.Status.ResourceClaimStatuses); got != c.want {
			t.Errorf("statuses of claims written as %v: got %d, want %d", c.written, got, c.want)
		}
	}
	old.Status.ResourceClaimStatuses = nil
	main := old.DeepCopy()
	main.Status.Phase = v1.PodRunning
	PrepareUpdate(main, old)
	if main.Status.Phase != v1.PodPending {
		t.Error("the main endpoint wrote the status")
	}
}

func ownGrace(seconds int64) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
}

// row: API-32
// row: API-33
// row: TRM-01
// row: TRM-02
func TestDeletionGracePeriod(t *testing.T) {
	n := func(v int64) *int64 { return &v }
	bound := func(p *v1.Pod) { p.Spec.NodeName = "n" }
	for _, c := range []struct {
		name  string
		pod   *v1.Pod
		asked *int64
		want  int64
	}{
		{"spec's default", podOf(bound), nil, 30},
		{"spec's own", podOf(bound, ownGrace(45)), nil, 45},
		{"spec's own, of nothing", podOf(bound, ownGrace(0)), nil, 0},
		{"spec's own, negative", podOf(bound, ownGrace(-9)), nil, 1},
		{"asked for more than the spec's", podOf(bound, ownGrace(5)), n(60), 60},
		{"asked for more than the default", podOf(bound), n(3600), 3600},
		{"at once, whatever the spec's", podOf(bound, ownGrace(45)), n(0), 0},
		{"asked", podOf(bound), n(5), 5},
		{"asked for more than the spec's", podOf(bound), n(60), 60},
		{"own in the spec", podOf(bound, graceOf(45)), nil, 45},
		{"own in the spec, asked", podOf(bound, graceOf(45)), n(44), 44},
		{"own in the spec, as much as the default asked", podOf(bound, graceOf(5)), n(30), 30},
		{"none in the spec", podOf(bound, graceOf(0)), nil, 0},
		{"none in the spec, asked", podOf(bound, graceOf(0)), n(7), 7},
		{"a second, as kubectl asks without --force", podOf(bound), n(1), 1},
		{"it runs", podOf(bound, func(p *v1.Pod) { p.Status.Phase = v1.PodRunning }), nil, 30},
		{"succeeded", podOf(bound, func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded }), n(5), 0},
		{"at once", podOf(bound), n(0), 0},
		{"negative", podOf(bound), n(-3), 1},
		{"not placed", podOf(), n(5), 0},
		{"ended", podOf(bound, func(p *v1.Pod) { p.Status.Phase = v1.PodFailed }), n(5), 0},
		{"succeeded", podOf(bound, func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded }), nil, 0},
		{"running", podOf(bound, func(p *v1.Pod) { p.Status.Phase = v1.PodRunning }), n(5), 5},
	} {
		if got := GracePeriodSeconds(c.pod, c.asked); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
	for _, asked := range []*int64{nil, n(0), n(7)} {
		want := int64(30)
		if asked != nil {
			want = *asked
		}
		o := &metav1.DeleteOptions{GracePeriodSeconds: asked}
		if !gracefulDelete(context.Background(), podOf(bound), o) || *o.GracePeriodSeconds != want {
			t.Errorf("grace filled in: %d, want %d", *o.GracePeriodSeconds, want)
		}
	}
}

func graceOf(seconds int64) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
}

// row: BND-02
// row: BND-04
// row: BND-06
// row: PST-02
// row: PST-16
// row: SCH-33
func TestBindPod(t *testing.T) {
	b := &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{"a": "b"}},
		Target: v1.ObjectReference{Name: "n"}}
	p := podOf()
	spec := p.Spec.DeepCopy()
	if err := bindPod(p, b, timeAt(3)); err != nil {
		t.Fatal(err)
	}
	spec.NodeName = "n"
	if !strings.EqualFold(p.Spec.String(), spec.String()) || p.Generation != 1 || p.Annotations["a"] != "b" {
		t.Errorf("more than the node's name changed: %v", p)
	}
	want := []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: timeAt(3)}}
	if !reflect.DeepEqual(p.Status.Conditions, want) {
		t.Errorf("conditions %+v, want %+v", p.Status.Conditions, want)
	}
	refused := podOf(func(p *v1.Pod) {
		p.Status.Conditions = []v1.PodCondition{{Type: "example.com/a", Status: v1.ConditionTrue},
			{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: "Unschedulable", Message: "no room"}}
		p.Status.Phase = v1.PodPending
	})
	before := refused.DeepCopy()
	if err := bindPod(refused, b, timeAt(3)); err != nil {
		t.Fatal(err)
	}
	before.Spec.NodeName, before.Annotations = "n", map[string]string{"a": "b"}
	before.Status.Conditions[1] = want[0]
	if !reflect.DeepEqual(refused, before) {
		t.Errorf("a Pod that was refused before: got %+v, want %+v", refused, before)
	}
	elsewhere := b.DeepCopy()
	elsewhere.Target.Name = "m"
	gates := func(names ...string) *v1.Pod {
		return podOf(func(p *v1.Pod) {
			for _, name := range names {
				p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, v1.PodSchedulingGate{Name: name})
			}
		})
	}
	for _, c := range []struct {
		pod  *v1.Pod
		b    *v1.Binding
		want string
	}{
		{p, b, `pod p is already assigned to node "n"`},
		{p, elsewhere, `pod p is already assigned to node "n"`},
		{gates("g"), b, "pod p has non-empty .spec.schedulingGates"},
		{gates("g", "h"), b, "pod p has non-empty .spec.schedulingGates"},
		{podOf(func(p *v1.Pod) { p.DeletionTimestamp = new(timeAt(0)) }), b,
			"pod p is being deleted, cannot be assigned to a host"},
	} {
		before := c.pod.DeepCopy()
		if err := bindPod(c.pod, c.b, timeAt(4)); err == nil || err.Error() != c.want {
			t.Errorf("to node %s: got %v, want %s", c.b.Target.Name, err, c.want)
		}
		if !reflect.DeepEqual(c.pod, before) {
			t.Errorf("to node %s: the refused binding changed the Pod: %v", c.b.Target.Name, c.pod)
		}
	}
}

// row: PDB-02
// row: PDB-05
// row: PDB-08
// row: PDB-12
func TestPodDisruptionBudget(t *testing.T) {
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "ns", Generation: 2},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}},
		Status: policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, CurrentHealthy: 2, DesiredHealthy: 1,
			DisruptionsAllowed: 1},
	}
	refusal := func(want string, retry int32) {
		t.Helper()
		err := CheckAndDecrement(b, "p", timeAt(0))
		s, ok := err.(errors.APIStatus)
		if !ok || !errors.IsTooManyRequests(err) || s.Status().Details.Causes[0].Message != want ||
			s.Status().Details.Causes[0].Type != policyv1.DisruptionBudgetCause ||
			s.Status().Details.RetryAfterSeconds != retry {
			t.Errorf("got %v", err)
		}
	}
	refusal("The disruption budget x is still being processed by the server.", 10)
	b.Status.ObservedGeneration = 2
	if err := CheckAndDecrement(b, "p", timeAt(0)); err != nil || b.Status.DisruptionsAllowed != 0 ||
		b.Status.DisruptedPods["p"] != timeAt(0) || len(b.Status.Conditions) != 1 {
		t.Errorf("got %v, %+v, want no error, DisruptionsAllowed 0, DisruptedPods[p] %v and 1 in Conditions", err,
			b.Status, timeAt(0))
	}
	refusal("The disruption budget x needs 1 healthy pods and has 2 currently", 0)

	ready := podOf(func(p *v1.Pod) {
		p.Labels = map[string]string{"app": "a"}
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
	})
	all := []policyv1.PodDisruptionBudget{*b}
	if own, other := MatchingBudgets(all, ready), MatchingBudgets(all, podOf()); len(own) != 1 || len(other) != 0 {
		t.Errorf("got %d budgets of a Pod with the labels and %d of another, want 1 and 0", len(own), len(other))
	}
	inNamespace := func(ns string, s *metav1.LabelSelector) policyv1.PodDisruptionBudget {
		return policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: ns},
			Spec: policyv1.PodDisruptionBudgetSpec{Selector: s}}
	}
	labels := func(pairs ...string) *metav1.LabelSelector {
		s := &metav1.LabelSelector{MatchLabels: map[string]string{}}
		for i := 0; i < len(pairs); i += 2 {
			s.MatchLabels[pairs[i]] = pairs[i+1]
		}
		return s
	}
	for name, c := range map[string]struct {
		b    policyv1.PodDisruptionBudget
		want int
	}{
		"all Pods": {inNamespace("ns", labels()), 1}, "no Pod": {inNamespace("ns", nil), 0},
		"of another namespace": {inNamespace("other", labels("app", "a")), 0},
		"another value":        {inNamespace("ns", labels("app", "b")), 0},
		"one label of two":     {inNamespace("ns", labels("app", "a", "tier", "x")), 0},
		"by expression": {inNamespace("ns", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"z", "a"}}}}), 1},
	} {
		if got := len(MatchingBudgets([]policyv1.PodDisruptionBudget{c.b}, ready)); got != c.want {
			t.Errorf("a budget of %s: got %d, want %d", name, got, c.want)
		}
	}
	unready := podOf()
	if r, u := canEvictUnready(ready, b), canEvictUnready(unready, b); r || !u {
		t.Errorf("enough others are healthy: got free %v for a ready Pod and %v for an unready one, want false and "+
			"true", r, u)
	}
	ifHealthy := policyv1.IfHealthyBudget
	for _, policy := range []*policyv1.UnhealthyPodEvictionPolicyType{nil, &ifHealthy} {
		for _, c := range []struct {
			current, desired int32
			free             bool
		}{{1, 1, true}, {2, 1, true}, {0, 1, false}, {2, 3, false}, {0, 0, false}} {
			b.Spec.UnhealthyPodEvictionPolicy = policy
			b.Status.CurrentHealthy, b.Status.DesiredHealthy = c.current, c.desired
			if got := canEvictUnready(unready, b); got != c.free {
				t.Errorf("%d healthy of %d: an unready Pod is free: %v, want %v", c.current, c.desired, got, c.free)
			}
		}
	}
	b.Spec.UnhealthyPodEvictionPolicy = nil
	b.Status.CurrentHealthy, b.Status.DesiredHealthy = 0, 1
	if canEvictUnready(unready, b) {
		t.Error("below the budget an unready Pod is guarded")
	}
	b.Spec.UnhealthyPodEvictionPolicy = new(policyv1.AlwaysAllow)
	if r, u := canEvictUnready(ready, b), canEvictUnready(unready, b); r || !u {
		t.Errorf("AlwaysAllow: got free %v for a ready Pod and %v for an unready one, want false and true", r, u)
	}
	b.Status.DisruptionsAllowed = 5
	for i := range 2000 {
		b.Status.DisruptedPods[fmt.Sprint("gone-", i)] = timeAt(0) // beside p
	}
	if err := CheckAndDecrement(b, "q", timeAt(0)); !errors.IsForbidden(err) || b.Status.DisruptionsAllowed != 5 {
		t.Errorf("with 2001 evictions that nobody confirmed: got %v and %d allowed, want a refusal and 5", err,
			b.Status.DisruptionsAllowed)
	}
}

func TestResizeRules(t *testing.T) {
	sized := func(cpu string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu),
				v1.ResourceMemory: resource.MustParse("1Gi")}
		}
	}
	old := podOf(sized("1"))
	now := old.DeepCopy()
	now.Spec.Containers[0].Image, now.Labels = "other", map[string]string{"a": "b"}
	now.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("2")
	var r resizeRules
	r.prepareForUpdate(now, old)
	if now.Spec.Containers[0].Image != "nginx:1.27" || len(now.Labels) != 0 {
		t.Errorf("got image %s and labels %v after a resize, want nginx:1.27 and none", now.Spec.Containers[0].Image,
			now.Labels)
	}
	if got := causes(r.validate(now, old)); got != "" {
		t.Errorf("r.validate(now, old) = %q, want nothing", got)
	}
	delete(now.Spec.Containers[0].Resources.Requests, v1.ResourceCPU)
	if got, want := causes(r.validate(now, old)),
		"spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"; got != want {
		t.Errorf("r.validate(now, old) = %q, want %q", got, want)
	}
}

// row: API-46
func TestContainerChoice(t *testing.T) {
	two := podOf(func(p *v1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "d", Image: "x"})
		p.Spec.InitContainers = []v1.Container{{Name: "i", Image: "x"}}
	})
	for _, c := range []struct {
		pod        *v1.Pod
		name, want string
	}{
		{podOf(), "", "c"},
		{two, "i", "i"},
		{two, "", "a container name must be specified for pod p, choose one of: [i c d]"},
		{two, "z", "container z is not valid for pod p"},
	} {
		got, err := container(c.pod, c.name)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

func TestKubeletAddress(t *testing.T) {
	n := &v1.Node{Status: v1.NodeStatus{
		Addresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"},
			{Type: v1.NodeHostName, Address: "n1"}},
		DaemonEndpoints: v1.NodeDaemonEndpoints{KubeletEndpoint: v1.DaemonEndpoint{Port: 4444}},
	}}
	for _, c := range []struct {
		types []v1.NodeAddressType
		want  string
	}{{nil, "https://n1:4444"}, {[]v1.NodeAddressType{v1.NodeInternalIP}, "https://10.0.0.1:4444"}} {
		if u, err := Location(n, c.types, 0); err != nil || u.String() != c.want {
			t.Errorf("got %v %v, want %s", u, err, c.want)
		}
	}
	if _, err := Location(&v1.Node{}, nil, 0); err == nil {
		t.Error("a node without addresses was reached")
	}
}
