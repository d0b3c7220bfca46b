package admission_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"

	own "github.com/gantry-project/gantry/internal/apiserver/admission"
	"github.com/gantry-project/gantry/test/wrappers"
)

// plugin makes a plugin over the given API objects; who holds group "signers" may do everything to
// signers.
func plugin(t *testing.T, name string, objects ...runtime.Object) admission.Interface {
	t.Helper()
	for _, p := range own.Plugins(own.Options{ProtectStorage: true}) {
		if p.Name != name {
			continue
		}
		out, err := p.Factory(nil)
		if err != nil {
			t.Fatal(err)
		}
		c := fake.NewSimpleClientset(objects...)
		f := informers.NewSharedInformerFactory(c, 0)
		if w, ok := out.(initializer.WantsExternalKubeClientSet); ok {
			w.SetExternalKubeClientSet(c)
		}
		if w, ok := out.(initializer.WantsExternalKubeInformerFactory); ok {
			w.SetExternalKubeInformerFactory(f)
		}
		if w, ok := out.(initializer.WantsAuthorizer); ok {
			w.SetAuthorizer(
				authorizer.AuthorizerFunc(func(_ context.Context,
					a authorizer.Attributes) (authorizer.Decision, string, error) {
					if slices.Contains(a.GetUser().GetGroups(), "signers") {
						return authorizer.DecisionAllow, "", nil
					}
					return authorizer.DecisionNoOpinion, "", nil
				}))
		}
		if v, ok := out.(admission.InitializationValidator); ok {
			if err := v.ValidateInitialization(); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		t.Cleanup(cancel)
		f.Start(ctx.Done())
		f.WaitForCacheSync(ctx.Done())
		return out
	}
	t.Fatalf("no plugin %s", name)
	return nil
}

// attributesCase is one request.
type attributesCase struct {
	obj, old runtime.Object
	sub      string
	op       admission.Operation // default Create, Update with old
	by       user.Info
	resource string // default from the object's kind
	name     string
}

func (w attributesCase) attributes(t *testing.T) admission.Attributes {
	t.Helper()
	o := w.obj
	if o == nil {
		o = w.old
	}
	gvks, _, err := scheme.Scheme.ObjectKinds(o)
	if err != nil {
		t.Fatal(err)
	}
	gvr, _ := meta.UnsafeGuessKindToResource(gvks[0])
	if w.resource != "" {
		gvr = schema.GroupVersionResource{Version: "v1", Resource: w.resource}
	}
	m, err := meta.Accessor(o)
	if err != nil {
		t.Fatal(err)
	}
	op := w.op
	switch {
	case op != "":
	case w.old != nil:
		op = admission.Update
	default:
		op = admission.Create
	}
	if w.by == nil {
		w.by = &user.DefaultInfo{Name: "somebody"}
	}
	name := w.name
	if name == "" {
		name = m.GetName()
	}
	return admission.NewAttributesRecord(w.obj, w.old, gvks[0], m.GetNamespace(), name, gvr, w.sub, op, nil, false,
		w.by)
}

// run passes a write through the mutating, then the validating half.
func run(t *testing.T, p admission.Interface, w attributesCase) error {
	t.Helper()
	a := w.attributes(t)
	if !p.Handles(a.GetOperation()) {
		return nil
	}
	if m, ok := p.(admission.MutationInterface); ok {
		if err := m.Admit(t.Context(), a, nil); err != nil {
			return err
		}
	}
	if v, ok := p.(admission.ValidationInterface); ok {
		return v.Validate(t.Context(), a, nil)
	}
	return nil
}

func expect(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("error %v, want %q", err, want)
	}
}

func pod(change ...func(*corev1.Pod)) *corev1.Pod {
	return wrappers.MakePod().Namespace("ns").Name("p").
		InitContainers(corev1.Container{Name: "i"}).Container("c", "").Obj(change...)
}

func account(name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
}

var list = wrappers.ResourceList

func ptr[T any](v T) *T { return &v }

// row: API-38
func TestDefaultTolerationSeconds(t *testing.T) {
	p := plugin(t, "DefaultTolerationSeconds")
	cases := map[string]struct {
		have []corev1.Toleration
		want int
	}{
		"none": {nil, 2},
		"one of its own": {
			[]corev1.Toleration{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute,
				TolerationSeconds: ptr(int64(5))}}, 2},
		"everything": {[]corev1.Toleration{{Operator: corev1.TolerationOpExists}}, 1},
		"everything NoSchedule": {
			[]corev1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}, 3},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := pod(func(p *corev1.Pod) { p.Spec.Tolerations = c.have })
			expect(t, run(t, p, attributesCase{obj: o}), "")
			if len(o.Spec.Tolerations) != c.want {
				t.Errorf("got %d tolerations %v, want %d", len(o.Spec.Tolerations), o.Spec.Tolerations, c.want)
			}
			for i, taint := range []string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"} {
				if got := o.Spec.Tolerations; name == "none" && (got[i].Key != taint ||
					got[i].Operator != corev1.TolerationOpExists || got[i].Effect != corev1.TaintEffectNoExecute ||
					*got[i].TolerationSeconds != 300) {
					t.Errorf("got %+v, want %s Exists NoExecute for 300 s", got[i], taint)
				}
			}
			if got := o.Spec.Tolerations; name == "one of its own" && (*got[0].TolerationSeconds != 5 ||
				got[1].Key != corev1.TaintNodeUnreachable || *got[1].TolerationSeconds != 300) {
				t.Errorf("got %+v, want 5 s of its own and 300 s of the other", got)
			}
		})
	}
	// a writer that leaves them out does not take them away; who writes the status adds none
	for sub, want := range map[string]int{"": 2, "status": 0} {
		o := pod()
		expect(t, run(t, p, attributesCase{obj: o, old: pod(), sub: sub}), "")
		if len(o.Spec.Tolerations) != want {
			t.Errorf("an update of %q: got %v, want %d tolerations", sub, o.Spec.Tolerations, want)
		}
	}
}

// row: API-39
func TestPriority(t *testing.T) {
	never := corev1.PreemptNever
	class := func(name string, value int32, def bool) *schedulingv1.PriorityClass {
		return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, GlobalDefault: def}
	}
	neverPreempts := class("calm", 5, false)
	neverPreempts.PreemptionPolicy = &never
	p := plugin(t, "Priority", class("high", 100, false), class("std", 7, true), neverPreempts)
	cases := map[string]struct {
		change func(*corev1.Pod)
		want   string
		value  int32
		policy corev1.PreemptionPolicy
	}{
		"named": {func(p *corev1.Pod) { p.Spec.PriorityClassName = "high" }, "", 100,
			corev1.PreemptLowerPriority},
		"default":        {func(*corev1.Pod) {}, "", 7, corev1.PreemptLowerPriority},
		"never preempts": {func(p *corev1.Pod) { p.Spec.PriorityClassName = "calm" }, "", 5, never},
		"system without object": {func(p *corev1.Pod) { p.Spec.PriorityClassName = "system-cluster-critical" }, "",
			2000000000, corev1.PreemptLowerPriority},
		"system-node-critical without object": {
			func(p *corev1.Pod) { p.Spec.PriorityClassName = "system-node-critical" }, "", 2000001000,
			corev1.PreemptLowerPriority},
		"unknown": {func(p *corev1.Pod) { p.Spec.PriorityClassName = "x" },
			"no PriorityClass with name x was found", 0, ""},
		"own number": {func(p *corev1.Pod) { p.Spec.Priority = ptr(int32(9)) },
			"the integer value of priority (9) must not be provided in pod spec; priority admission controller " +
				"computed 7 from the given PriorityClass name", 0, ""},
		"own policy, no class's": {func(p *corev1.Pod) { p.Spec.PreemptionPolicy = &never },
			"the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority admission " +
				"controller computed PreemptLowerPriority", 0, ""},
		"same number": {func(p *corev1.Pod) { p.Spec.Priority = ptr(int32(7)) }, "", 7, corev1.PreemptLowerPriority},
		"own policy": {func(p *corev1.Pod) {
			p.Spec.PriorityClassName, p.Spec.PreemptionPolicy = "calm", ptr(corev1.PreemptLowerPriority)
		}, "the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided in pod spec; priority " +
			"admission controller computed Never", 0, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := pod(c.change)
			expect(t, run(t, p, attributesCase{obj: o}), c.want)
			if c.want == "" && (*o.Spec.Priority != c.value || *o.Spec.PreemptionPolicy != c.policy) {
				t.Errorf("got %d %s, want Priority %v and PreemptionPolicy %v", *o.Spec.Priority,
					*o.Spec.PreemptionPolicy, c.value, c.policy)
			}
		})
	}
	old := pod(func(p *corev1.Pod) { p.Spec.Priority = ptr(int32(3)) })
	now := pod()
	expect(t, run(t, p, attributesCase{obj: now, old: old}), "")
	if got := now.Spec.Priority; got == nil || *got != 3 {
		t.Errorf("got spec %+v after an update, want priority 3", now.Spec)
	}
	expect(t, run(t, p, attributesCase{obj: class("second", 1, true), resource: "priorityclasses"}), "")
	second := class("second", 1, true)
	a := admission.NewAttributesRecord(second, nil, schedulingv1.SchemeGroupVersion.WithKind("PriorityClass"), "",
		"second",
		schedulingv1.SchemeGroupVersion.WithResource("priorityclasses"), "", admission.Create, nil, false, nil)
	expect(t, p.(admission.ValidationInterface).Validate(t.Context(), a, nil),
		"PriorityClass std is already marked as default. Only one default can exist")
}

func TestServiceAccountMounts(t *testing.T) {
	plain, off := account("default"), account("off")
	plain.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}}
	off.AutomountServiceAccountToken = ptr(false)
	p := plugin(t, "ServiceAccount", plain, off)

	o := pod()
	expect(t, run(t, p, attributesCase{obj: o}), "")
	if o.Spec.ServiceAccountName != "default" || o.Spec.DeprecatedServiceAccount != "default" ||
		o.Spec.ImagePullSecrets[0].Name != "pull" {
		t.Errorf("got %+v, want ServiceAccountName default, DeprecatedServiceAccount default and Name pull", o.Spec)
	}
	v := o.Spec.Volumes[0]
	if !strings.HasPrefix(v.Name, "kube-api-access-") || len(v.Name) != len("kube-api-access-")+5 ||
		*v.Projected.DefaultMode != 0o644 ||
		*v.Projected.Sources[0].ServiceAccountToken.ExpirationSeconds != 3607 ||
		v.Projected.Sources[1].ConfigMap.Name != "kube-root-ca.crt" ||
		v.Projected.Sources[2].DownwardAPI.Items[0].FieldRef.FieldPath != "metadata.namespace" {
		t.Errorf("got %+v, want Name beginning with kube-api-access-, %v in Name, DefaultMode 0o644, "+
			"ExpirationSeconds 3607, Name kube-root-ca.crt and FieldPath metadata.namespace", v,
			len("kube-api-access-")+5)
	}
	for _, c := range []corev1.Container{o.Spec.InitContainers[0], o.Spec.Containers[0]} {
		if len(c.VolumeMounts) != 1 || c.VolumeMounts[0].Name != v.Name || !c.VolumeMounts[0].ReadOnly {
			t.Errorf("%s mounts %v", c.Name, c.VolumeMounts)
		}
	}
	mounts := func(change func(*corev1.Pod)) int {
		o := pod(change)
		expect(t, run(t, p, attributesCase{obj: o}), "")
		return len(o.Spec.Volumes)
	}
	if n := mounts(func(p *corev1.Pod) { p.Spec.ServiceAccountName = "off" }); n != 0 {
		t.Error("mounted although the account says no")
	}
	if n := mounts(func(p *corev1.Pod) {
		p.Spec.ServiceAccountName, p.Spec.AutomountServiceAccountToken = "off", ptr(true)
	}); n != 1 {
		t.Error("not mounted although the Pod says yes")
	}
	if n := mounts(func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = ptr(false) }); n != 0 {
		t.Error("mounted although the Pod says no")
	}
	own := corev1.VolumeMount{Name: "mine", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}
	if n := mounts(func(p *corev1.Pod) {
		p.Spec.InitContainers, p.Spec.Containers[0].VolumeMounts = nil, []corev1.VolumeMount{own}
	}); n != 0 {
		t.Error("mounted over the Pod's own")
	}
}

func TestServiceAccountRefuses(t *testing.T) {
	strict := account("strict")
	strict.Annotations = map[string]string{"kubernetes.io/enforce-mountable-secrets": "true"}
	strict.Secrets = []corev1.ObjectReference{{Name: "listed"}}
	p := plugin(t, "ServiceAccount", account("default"), strict)
	mirror := func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }
	secret := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.ServiceAccountName = "strict"
			p.Spec.Volumes = []corev1.Volume{
				{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}}}
		}
	}
	for name, c := range map[string]struct {
		obj  *corev1.Pod
		want string
	}{
		"absent account": {pod(func(p *corev1.Pod) { p.Spec.ServiceAccountName = "gone" }),
			`pods "p" is forbidden: error looking up service account ns/gone: serviceaccount "gone" not found`},
		"mirror": {pod(mirror), ""},
		"mirror with account": {pod(mirror, func(p *corev1.Pod) { p.Spec.ServiceAccountName = "default" }),
			"a mirror pod may not reference service accounts"},
		"mirror with secret": {
			pod(mirror, func(p *corev1.Pod) { p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "x"}} }),
			"a mirror pod may not reference secrets"},
		"secret listed": {pod(secret("listed")), ""},
		"secret not listed": {pod(secret("other")),
			`volume with secret.secretName="other" is not allowed because service account strict does not reference ` +
				`that secret`},
	} {
		t.Run(name, func(t *testing.T) { expect(t, run(t, p, attributesCase{obj: c.obj}), c.want) })
	}
}

func TestLimitRanger(t *testing.T) {
	limits := func(items ...corev1.LimitRangeItem) *corev1.LimitRange {
		return &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "lr"},
			Spec: corev1.LimitRangeSpec{Limits: items}}
	}
	with := func(requests, limits corev1.ResourceList) *corev1.Pod {
		return pod(func(p *corev1.Pod) {
			p.Spec.InitContainers = nil
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: requests, Limits: limits}
		})
	}
	item := func(t corev1.LimitType, f func(*corev1.LimitRangeItem)) corev1.LimitRangeItem {
		i := corev1.LimitRangeItem{Type: t}
		f(&i)
		return i
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x"},
		Spec: corev1.PersistentVolumeClaimSpec{
			Resources: corev1.VolumeResourceRequirements{Requests: list("storage", "1Gi")},
		}}
	for name, c := range map[string]struct {
		limits corev1.LimitRangeItem
		obj    runtime.Object
		want   string
	}{
		"pod over the limit": {item("Pod", func(i *corev1.LimitRangeItem) { i.Max = list("memory", "2Gi") }),
			with(nil, list("memory", "3Gi")),
			`pods "p" is forbidden: maximum memory usage per Pod is 2Gi, but limit is 3Gi`},
		"pod without limit": {item("Pod", func(i *corev1.LimitRangeItem) { i.Max = list("memory", "2Gi") }),
			with(nil, nil), "maximum memory usage per Pod is 2Gi.  No limit is specified"},
		"container too small": {item("Container", func(i *corev1.LimitRangeItem) { i.Min = list("cpu", "100m") }),
			with(list("cpu", "50m"), nil), "minimum cpu usage per Container is 100m, but request is 50m"},
		"no request": {item("Container", func(i *corev1.LimitRangeItem) { i.Min = list("cpu", "100m") }),
			with(nil, nil), "minimum cpu usage per Container is 100m.  No request is specified"},
		"ratio": {
			item("Container", func(i *corev1.LimitRangeItem) { i.MaxLimitRequestRatio = list("cpu", "2") }),
			with(list("cpu", "100m"), list("cpu", "500m")),
			"cpu max limit to request ratio per Container is 2, but provided ratio is 5.000000"},
		"two limits broken": {
			item("Container", func(i *corev1.LimitRangeItem) { i.Max = list("cpu", "1", "memory", "1Gi") }),
			with(nil, list("cpu", "2", "memory", "2Gi")),
			"[maximum cpu usage per Container is 1, but limit is 2, maximum memory usage per Container is 1Gi, but " +
				"limit is 2Gi]"},
		"claim": {item("PersistentVolumeClaim", func(i *corev1.LimitRangeItem) { i.Max = list("storage", "1Mi") }),
			claim, `maximum storage usage per PersistentVolumeClaim is 1Mi, but request is 1Gi`},
		"fits": {item("Container",
			func(i *corev1.LimitRangeItem) { i.Max, i.Min = list("cpu", "1"), list("cpu", "10m") }),
			with(list("cpu", "1"), list("cpu", "1")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, run(t, plugin(t, "LimitRanger", limits(c.limits)), attributesCase{obj: c.obj}), c.want)
		})
	}
	o := pod()
	o.Spec.Containers[0].Resources.Limits = list("cpu", "3")
	p := plugin(t, "LimitRanger", limits(item("Container", func(i *corev1.LimitRangeItem) {
		i.Default, i.DefaultRequest = list("cpu", "1", "memory", "1Gi"), list("cpu", "100m")
	})))
	expect(t, run(t, p, attributesCase{obj: o}), "")
	want := "LimitRanger plugin set: cpu request for container c; memory limit for container c; cpu request for init " +
		"container i; cpu, memory limit for init container i"
	if got := o.Annotations["kubernetes.io/limit-ranger"]; got != want {
		t.Errorf("annotation: got %q, want %q", got, want)
	}
	if q := o.Spec.Containers[0].Resources.Limits["cpu"]; q.String() != "3" {
		t.Errorf("the Pod's own limit was overwritten with %s", q.String())
	}
}

func TestRuntimeClass(t *testing.T) {
	class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "vm"}, Handler: "vm",
		Overhead: &nodev1.Overhead{PodFixed: list("memory", "64Mi")},
		Scheduling: &nodev1.Scheduling{NodeSelector: map[string]string{"vm": "yes"},
			Tolerations: []corev1.Toleration{{Key: "vm", Operator: corev1.TolerationOpExists}}},
	}
	p := plugin(t, "RuntimeClass", class)
	named := func(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.RuntimeClassName = &name } }
	o := pod(named("vm"))
	expect(t, run(t, p, attributesCase{obj: o}), "")
	if q := o.Spec.Overhead["memory"]; q.String() != "64Mi" || o.Spec.NodeSelector["vm"] != "yes" ||
		len(o.Spec.Tolerations) != 1 {
		t.Errorf("got %+v, want q 64Mi, NodeSelector[vm] yes and 1 in Tolerations", o.Spec)
	}
	for name, c := range map[string]struct {
		obj  *corev1.Pod
		want string
	}{
		"unknown": {pod(named("x")), `pod rejected: RuntimeClass "x" not found`},
		"other overhead": {pod(named("vm"), func(p *corev1.Pod) { p.Spec.Overhead = list("memory", "1Mi") }),
			"pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"},
		"overhead, no class": {pod(func(p *corev1.Pod) { p.Spec.Overhead = list("memory", "1Mi") }),
			"pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"},
		"other node": {pod(named("vm"), func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"vm": "no"} }),
			"conflict: runtimeClass.scheduling.nodeSelector[vm] = yes; pod.spec.nodeSelector[vm] = no"},
		"no class": {pod(), ""},
	} {
		t.Run(name, func(t *testing.T) { expect(t, run(t, p, attributesCase{obj: c.obj}), c.want) })
	}
}

// Of the tolerations of a Pod and of its class those stay that no other includes.
func TestTolerationsOfRuntimeClass(t *testing.T) {
	tol := func(key string, op corev1.TolerationOperator, effect corev1.TaintEffect,
		seconds ...int64) corev1.Toleration {
		out := corev1.Toleration{Key: key, Operator: op, Effect: effect}
		if len(seconds) > 0 {
			out.TolerationSeconds = &seconds[0]
		}
		return out
	}
	const exists, run1, no = corev1.TolerationOpExists, corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule
	value := corev1.Toleration{Key: "a", Operator: corev1.TolerationOpEqual, Value: "b"}
	type list = []corev1.Toleration
	other := corev1.Toleration{Key: "a", Operator: corev1.TolerationOpEqual, Value: "c"}
	for name, c := range map[string]struct{ pod, class, want list }{
		"equal": {
			list{value},
			list{value},
			list{value},
		},
		"the Pod's is wider": {
			list{tol("a", exists, "")},
			list{tol("a", exists, run1)},
			list{tol("a", exists, "")},
		},
		"the class's is wider": {
			list{tol("a", exists, run1), value},
			list{tol("a", exists, "")},
			list{tol("a", exists, "")},
		},
		"all keys": {
			list{tol("a", exists, no)},
			list{tol("", exists, "")},
			list{tol("", exists, "")},
		},
		"other keys": {
			list{tol("a", exists, "")},
			list{tol("b", exists, "")},
			list{tol("a", exists, ""), tol("b", exists, "")},
		},
		"another effect": {
			list{tol("a", exists, no)},
			list{tol("a", exists, run1)},
			list{tol("a", exists, no), tol("a", exists, run1)},
		},
		"longer includes shorter": {
			list{tol("a", exists, run1, 5)},
			list{tol("a", exists, run1, 9)},
			list{tol("a", exists, run1, 9)},
		},
		"for ever is not included": {
			list{tol("a", exists, run1)},
			list{tol("a", exists, run1, 9)},
			list{tol("a", exists, run1)},
		},
		"a value includes no other": {
			list{value},
			list{other},
			list{value, other},
		},
	} {
		class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "vm"}, Handler: "vm",
			Scheduling: &nodev1.Scheduling{Tolerations: c.class}}
		p := pod(func(p *corev1.Pod) { p.Spec.RuntimeClassName, p.Spec.Tolerations = &class.Name, c.pod })
		expect(t, run(t, plugin(t, "RuntimeClass", class), attributesCase{obj: p}), "")
		if !apiequality.Semantic.DeepEqual(p.Spec.Tolerations, c.want) {
			t.Errorf("%s: got %v, want %v", name, p.Spec.Tolerations, c.want)
		}
	}
}

func TestStorage(t *testing.T) {
	class := func(name string, def bool, grow *bool) *storagev1.StorageClass {
		c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, AllowVolumeExpansion: grow}
		if def {
			c.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
		}
		return c
	}
	claim := func(class *string, size string, phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: class, Resources: corev1.VolumeResourceRequirements{Requests: list("storage", size)},
			}, Status: corev1.PersistentVolumeClaimStatus{Phase: phase}}
	}
	objects := []runtime.Object{class("b", true, nil), class("a", true, nil), class("grows", false, ptr(true)),
		class("fixed", false, ptr(false))}
	o := claim(nil, "1Gi", "")
	expect(t, run(t, plugin(t, "DefaultStorageClass", objects...), attributesCase{obj: o}), "")
	if o.Spec.StorageClassName == nil || *o.Spec.StorageClassName != "a" {
		t.Errorf("class %v", o.Spec.StorageClassName)
	}
	beta := class("beta", false, nil)
	beta.Annotations = map[string]string{"storageclass.beta.kubernetes.io/is-default-class": "true"}
	old := claim(nil, "1Gi", "")
	old.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: "grows"}
	later := claim(nil, "1Gi", "")
	betaPlugin := plugin(t, "DefaultStorageClass", beta)
	expect(t, run(t, betaPlugin, attributesCase{obj: old}), "")
	expect(t, run(t, betaPlugin, attributesCase{obj: later}), "")
	expect(t, run(t, betaPlugin, attributesCase{obj: &corev1.Pod{}}), "")
	if got := later.Spec.StorageClassName; old.Spec.StorageClassName != nil || got == nil || *got != "beta" {
		t.Errorf("got classes %v and %v, want none for the claim that an annotation gives one, and beta",
			old.Spec.StorageClassName, later.Spec.StorageClassName)
	}
	none := claim(ptr(""), "1Gi", "")
	expect(t, run(t, plugin(t, "DefaultStorageClass", objects...), attributesCase{obj: none}), "")
	if *none.Spec.StorageClassName != "" {
		t.Error("a claim that wants no class was given one")
	}
	resize := plugin(t, "PersistentVolumeClaimResize", objects...)
	for name, c := range map[string]struct {
		old, now *corev1.PersistentVolumeClaim
		want     string
	}{
		"grows": {claim(ptr("grows"), "1Gi", corev1.ClaimBound), claim(ptr("grows"), "2Gi", corev1.ClaimBound), ""},
		"fixed": {claim(ptr("fixed"), "1Gi", corev1.ClaimBound), claim(ptr("fixed"), "2Gi", corev1.ClaimBound),
			"only dynamically provisioned pvc can be resized"},
		"not bound": {claim(ptr("grows"), "1Gi", corev1.ClaimPending), claim(ptr("grows"), "2Gi", ""),
			"Only bound persistent volume claims can be expanded"},
		"unchanged": {claim(ptr("fixed"), "1Gi", ""), claim(ptr("fixed"), "1Gi", ""), ""},
	} {
		t.Run(name, func(t *testing.T) { expect(t, run(t, resize, attributesCase{obj: c.now, old: c.old}), c.want) })
	}
	inUse := plugin(t, "StorageObjectInUseProtection")
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}}
	expect(t, run(t, inUse, attributesCase{obj: o}), "")
	expect(t, run(t, inUse, attributesCase{obj: pv}), "")
	attributes := &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"},
		DriverName: "d.example.com"}
	expect(t, run(t, inUse, attributesCase{obj: attributes, resource: "volumeattributesclasses"}), "")
	if !slices.Equal(o.Finalizers, []string{"kubernetes.io/pvc-protection"}) || !slices.Equal(pv.Finalizers,
		[]string{"kubernetes.io/pv-protection"}) ||
		!slices.Equal(attributes.Finalizers, []string{"kubernetes.io/vac-protection"}) {
		t.Errorf("got %v %v %v, want Finalizers %v, Finalizers %v and Finalizers %v", o.Finalizers, pv.Finalizers,
			attributes.Finalizers, []string{"kubernetes.io/pvc-protection"}, []string{"kubernetes.io/pv-protection"},
			[]string{"kubernetes.io/vac-protection"})
	}
}

func request(t *testing.T, groups ...string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: "u", Organization: groups}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func TestCertificates(t *testing.T) {
	csr := func(signer string, groups ...string) *certificatesv1.CertificateSigningRequest {
		return &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "r"},
			Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: signer, Request: request(t, groups...)}}
	}
	signed := csr("example.com/a")
	signed.Status.Certificate = []byte("x")
	broken := csr(certificatesv1.KubeAPIServerClientSignerName)
	broken.Spec.Request = []byte("x")
	may, not := &user.DefaultInfo{Name: "s", Groups: []string{"signers"}}, &user.DefaultInfo{Name: "n"}
	for name, c := range map[string]struct {
		plugin string
		write  attributesCase
		want   string
	}{
		"approve": {"CertificateApproval", attributesCase{obj: csr("example.com/a"), old: csr("example.com/a"),
			sub: "approval", by: may}, ""},
		"may not approve": {"CertificateApproval", attributesCase{obj: csr("example.com/a"), old: csr("example.com/a"),
			sub: "approval", by: not}, `user not permitted to approve requests with signerName "example.com/a"`},
		"may not sign": {"CertificateSigning", attributesCase{obj: signed, old: csr("example.com/a"), sub: "status",
			by: not}, `user not permitted to sign requests with signerName "example.com/a"`},
		"sign": {"CertificateSigning", attributesCase{obj: signed, old: csr("example.com/a"), sub: "status",
			by: may}, ""},
		"another status": {"CertificateSigning", attributesCase{obj: csr("example.com/a"), old: csr("example.com/a"),
			sub: "status", by: not}, ""},
		"master": {"CertificateSubjectRestriction",
			attributesCase{obj: csr(certificatesv1.KubeAPIServerClientSignerName, "system:masters")},
			"use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"},
		"no master": {"CertificateSubjectRestriction",
			attributesCase{obj: csr(certificatesv1.KubeAPIServerClientSignerName, "dev")}, ""},
		"not parsed": {"CertificateSubjectRestriction", attributesCase{obj: broken}, "failed to parse CSR"},
		"master elsewhere": {"CertificateSubjectRestriction",
			attributesCase{obj: csr("example.com/a", "system:masters")}, ""},
	} {
		t.Run(name, func(t *testing.T) { expect(t, run(t, plugin(t, c.plugin), c.write), c.want) })
	}
}

// row: SEC-05
// row: SEC-06
func TestPodSecurity(t *testing.T) {
	ns := func(level string) *corev1.Namespace {
		n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}
		if level != "" {
			n.Labels = map[string]string{"pod-security.kubernetes.io/enforce": level}
		}
		return n
	}
	kept := func(p *corev1.Pod) {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: ptr(true),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
		for _, c := range []*corev1.Container{&p.Spec.InitContainers[0], &p.Spec.Containers[0]} {
			c.SecurityContext = &corev1.SecurityContext{AllowPrivilegeEscalation: ptr(false),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
		}
	}
	privileged := pod(func(p *corev1.Pod) {
		p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr(true)}
	})
	for name, c := range map[string]struct {
		level string
		obj   *corev1.Pod
		want  string
	}{
		"restricted": {"restricted", pod(),
			`pods "p" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false ` +
				`(containers "i", "c" must set securityContext.allowPrivilegeEscalation=false)`},
		"baseline": {"baseline", pod(), ""},
		"privileged by base": {"baseline", privileged,
			`violates PodSecurity "baseline:latest": privileged (container "c" must not set ` +
				`securityContext.privileged=true)`},
		"privileged is free":           {"privileged", privileged, ""},
		"a namespace without a level":  {"", privileged, ""},
		"all that restricted asks for": {"restricted", pod(kept), ""},
		"privileged init container, by base": {"baseline", pod(func(p *corev1.Pod) {
			p.Spec.InitContainers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr(true)}
		}), `privileged (container "i" must not set securityContext.privileged=true)`},
		"the machine's network, by base": {"baseline", pod(func(p *corev1.Pod) { p.Spec.HostNetwork = true }),
			`violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)`},
		"the machine's network, else as restricted asks": {"restricted", pod(kept,
			func(p *corev1.Pod) { p.Spec.HostNetwork = true }),
			`violates PodSecurity "restricted:latest": host namespaces (hostNetwork=true)`},
		"windows is not linux": {"restricted", pod(func(p *corev1.Pod) {
			p.Spec.OS = &corev1.PodOS{Name: corev1.Windows}
			p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: ptr(true)}
		}), ""},
		"windows as root": {"restricted", pod(func(p *corev1.Pod) {
			p.Spec.OS = &corev1.PodOS{Name: corev1.Windows}
		}), `violates PodSecurity "restricted:latest": runAsNonRoot != true`},
		"linux by name is linux": {"restricted", pod(func(p *corev1.Pod) {
			p.Spec.OS = &corev1.PodOS{Name: corev1.Linux}
			p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: ptr(true)}
		}), `violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false`},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, run(t, plugin(t, "PodSecurity", ns(c.level)), attributesCase{obj: c.obj}), c.want)
		})
	}
}

// An update is looked at as a creation is: a container for debugging keeps to the level too.
//
// row: SEC-06
func TestPodSecurityOfUpdates(t *testing.T) {
	debugged := pod(func(p *corev1.Pod) {
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "x",
				SecurityContext: &corev1.SecurityContext{Privileged: ptr(true)}}}}
	})
	for level, want := range map[string]string{"privileged": "",
		"baseline": `violates PodSecurity "baseline:latest": privileged (container "debug" must not set ` +
			`securityContext.privileged=true)`} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns",
			Labels: map[string]string{"pod-security.kubernetes.io/enforce": level}}}
		expect(t, run(t, plugin(t, "PodSecurity", ns), attributesCase{obj: debugged, old: pod(),
			sub: "ephemeralcontainers"}), want)
	}
}

// Each of the three modes has a level and a version of its own: enforce refuses, warn warns the
// caller, audit annotates the audit event. A template is never refused; of what would be refused
// later its writer is warned, with or without warn.
//
// row: SEC-06
func TestPodSecurityModes(t *testing.T) {
	const at = "pod-security.kubernetes.io/"
	ns := func(labels map[string]string) *corev1.Namespace {
		n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: map[string]string{}}}
		for k, v := range labels {
			n.Labels[at+k] = v
		}
		return n
	}
	// The level restricted asks for seccomp profiles since v1.19 and for capabilities to be dropped
	// since v1.22.
	almost := pod(func(p *corev1.Pod) {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: ptr(true)}
		for _, c := range []*corev1.Container{&p.Spec.InitContainers[0], &p.Spec.Containers[0]} {
			c.SecurityContext = &corev1.SecurityContext{AllowPrivilegeEscalation: ptr(false)}
		}
	})
	replicas := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r"},
		Spec: appsv1.ReplicaSetSpec{Template: corev1.PodTemplateSpec{Spec: pod().Spec}}}
	const capabilities = `unrestricted capabilities (containers "i", "c" must set ` +
		`securityContext.capabilities.drop=["ALL"])`
	const seccomp = `seccompProfile (pod or containers "i", "c" must set securityContext.seccompProfile.type to ` +
		`"RuntimeDefault" or "Localhost")`
	for name, c := range map[string]struct {
		labels               map[string]string
		obj                  runtime.Object
		refused, warned, log string
	}{
		"an old version knows less": {labels: map[string]string{"enforce": "restricted",
			"enforce-version": "v1.18"}, obj: almost},
		"a newer one knows more": {labels: map[string]string{"enforce": "restricted",
			"enforce-version": "v1.19"}, obj: almost, refused: `violates PodSecurity "restricted:v1.19": ` + seccomp},
		"the latest": {labels: map[string]string{"enforce": "restricted",
			"enforce-version": "latest"}, obj: almost,
			refused: `violates PodSecurity "restricted:latest": ` + capabilities + ", " + seccomp},
		"warn alone": {labels: map[string]string{"warn": "restricted", "warn-version": "v1.20"},
			obj: almost, warned: `would violate PodSecurity "restricted:v1.20": ` + seccomp},
		"audit alone": {labels: map[string]string{"audit": "restricted", "audit-version": "v1.20"},
			obj: almost, log: `audit-violations=would violate PodSecurity "restricted:v1.20": ` + seccomp},
		"warned under another level": {labels: map[string]string{"enforce": "baseline", "warn": "restricted"},
			obj: almost, warned: `would violate PodSecurity "restricted:latest"`},
		"refused is not warned of too": {labels: map[string]string{"enforce": "restricted", "warn": "restricted",
			"audit": "restricted"}, obj: almost, refused: `violates PodSecurity "restricted:latest"`,
			log: `audit-violations=would violate`},
		"the level that was enforced": {labels: map[string]string{"enforce": "baseline"}, obj: almost,
			log: "enforce-policy=baseline:latest"},
		"a template is not refused": {labels: map[string]string{"enforce": "restricted", "warn": "restricted"},
			obj: replicas, warned: `would violate PodSecurity "restricted:latest": allowPrivilegeEscalation != false`},
		"a template under enforce only": {labels: map[string]string{"enforce": "restricted"}, obj: replicas,
			warned: `would violate PodSecurity "restricted:latest"`},
		"a level that is none": {labels: map[string]string{"enforce": "strict"}, obj: almost,
			refused: `violates PodSecurity "restricted:latest"`,
			log: `error=Failed to parse policy: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid ` +
				`value: "strict": must be one of privileged, baseline, restricted`},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := &warningRecorder{}
			ctx := audit.WithAuditContext(warning.WithWarningRecorder(t.Context(), recorder))
			_ = audit.AuditContextFrom(ctx).Init(audit.RequestAuditConfig{Level: auditinternal.LevelMetadata}, nil)
			a := attributesCase{obj: c.obj}.attributes(t)
			expect(t, plugin(t, "PodSecurity", ns(c.labels)).(admission.ValidationInterface).Validate(ctx, a, nil),
				c.refused)
			if got := strings.Join(recorder.warnings, "\n"); (c.warned == "") != (got == "") || !strings.Contains(got,
				c.warned) {
				t.Errorf("warned %q, want %q", got, c.warned)
			}
			key, want, _ := strings.Cut(c.log, "=")
			if got, _ := audit.AuditContextFrom(ctx).GetEventAnnotation(at + key); key != "" && !strings.Contains(got,
				want) {
				t.Errorf("the audit log has %s %q, want %q", key, got, want)
			}
			if _, noted := audit.AuditContextFrom(ctx).GetEventAnnotation(at + "audit-violations"); noted !=
				strings.HasPrefix(c.log, "audit-violations") {
				t.Errorf("the audit log has violations: got %t, want %t", noted,
					strings.HasPrefix(c.log, "audit-violations"))
			}
		})
	}
}

// warningRecorder remembers warnings.
type warningRecorder struct{ warnings []string }

func (h *warningRecorder) AddWarning(_, text string) { h.warnings = append(h.warnings, text) }

func TestTaintNodes(t *testing.T) {
	p := plugin(t, "TaintNodesByCondition")
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	for range 2 {
		expect(t, run(t, p, attributesCase{obj: n}), "")
	}
	if len(n.Spec.Taints) != 1 || n.Spec.Taints[0].ToString() != "node.kubernetes.io/not-ready:NoSchedule" {
		t.Errorf("taints %v", n.Spec.Taints)
	}
}

func TestNodeRestriction(t *testing.T) {
	agent := &user.DefaultInfo{Name: "system:node:n1", Groups: []string{"system:nodes"}}
	node := func(name string, change ...func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "node-uid"}}
		for _, f := range change {
			f(n)
		}
		return n
	}
	bound := func(to string) *corev1.Pod {
		return pod(func(p *corev1.Pod) {
			p.UID, p.Spec.NodeName = "pod-uid", to
			p.Spec.Volumes = []corev1.Volume{{Name: "t", VolumeSource: corev1.VolumeSource{
				Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
					{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}}}}}}
		})
	}
	mirror := func(change ...func(*corev1.Pod)) *corev1.Pod {
		return pod(append([]func(*corev1.Pod){func(p *corev1.Pod) {
			p.Annotations, p.Spec.NodeName = map[string]string{corev1.MirrorPodAnnotationKey: "x"}, "n1"
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", UID: "node-uid",
				Controller: ptr(true)}}
		}}, change...)...)
	}
	label := func(k string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Labels = map[string]string{k: "x"} }
	}
	token := func(uid string) *authenticationv1.TokenRequest {
		return &authenticationv1.TokenRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "default"},
			Spec: authenticationv1.TokenRequestSpec{
				BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: "p",
					UID: types.UID(uid)},
			}}
	}
	lease := func(ns, name string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	}
	here := []runtime.Object{node("n1"), bound("n1")}
	elsewhere := []runtime.Object{node("n1"), bound("n2")}
	for name, c := range map[string]struct {
		objects []runtime.Object
		write   attributesCase
		want    string
	}{
		"others are free": {here, attributesCase{obj: node("n2"), by: &user.DefaultInfo{Name: "zoe"}}, ""},
		"own node":        {here, attributesCase{obj: node("n1")}, ""},
		"another node": {here, attributesCase{obj: node("n2")},
			`node "n1" is not allowed to modify node "n2"`},
		"own labels":          {here, attributesCase{obj: node("n1", label("node.kubernetes.io/x"))}, ""},
		"label of any domain": {here, attributesCase{obj: node("n1", label("example.com/x"))}, ""},
		"role label": {here, attributesCase{obj: node("n1", label("node-role.kubernetes.io/x"))},
			`node "n1" is not allowed to set the following labels: node-role.kubernetes.io/x`},
		"restricted label": {here, attributesCase{obj: node("n1", label("a.node-restriction.kubernetes.io/x"))},
			"is not allowed to set the following labels"},
		"label later": {here, attributesCase{obj: node("n1"), old: node("n1", label("foo.k8s.io/x"))},
			"is not allowed to modify labels: foo.k8s.io/x"},
		"taints": {here,
			attributesCase{obj: node("n1"),
				old: node("n1", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "k"}} })},
			`node "n1" is not allowed to modify taints`},
		"owners": {here,
			attributesCase{
				obj: node("n1", func(n *corev1.Node) { n.OwnerReferences = []metav1.OwnerReference{{Name: "x"}} }),
				old: node("n1")}, "ownerReferences"},
		"delete another": {here, attributesCase{old: node("n2"), op: admission.Delete},
			`node "n1" is not allowed to modify node "n2"`},
		"no mirror": {here, attributesCase{obj: pod()},
			`pod does not have "kubernetes.io/config.mirror" annotation, node "n1" can only create mirror pods`},
		"mirror": {here, attributesCase{obj: mirror()}, ""},
		"mirror elsewhere": {here, attributesCase{obj: mirror(func(p *corev1.Pod) { p.Spec.NodeName = "n2" })},
			`node "n1" can only create pods with spec.nodeName set to itself`},
		"mirror without owner": {here, attributesCase{obj: mirror(func(p *corev1.Pod) { p.OwnerReferences = nil })},
			"owner reference set to itself"},
		"mirror of an old node": {here,
			attributesCase{obj: mirror(func(p *corev1.Pod) { p.OwnerReferences[0].UID = "old" })},
			"UID mismatch: expected old got node-uid"},
		"mirror with secret": {here,
			attributesCase{
				obj: mirror(
					func(p *corev1.Pod) { p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "x"}} })},
			"can not create pods that reference secrets"},
		"delete its pod": {here, attributesCase{old: bound("n1"), op: admission.Delete}, ""},
		"delete another's pod": {elsewhere, attributesCase{old: bound("n2"), op: admission.Delete},
			`node "n1" can only delete pods with spec.nodeName set to itself`},
		"status": {here, attributesCase{obj: bound("n1"), old: bound("n1"), sub: "status"}, ""},
		"status of another's": {here, attributesCase{obj: bound("n1"), old: bound("n2"), sub: "status"},
			"can only update pod status for pods with spec.nodeName set to itself"},
		"labels by status": {here,
			attributesCase{obj: pod(func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }), old: bound("n1"),
				sub: "status"}, "cannot update labels through pod status"},
		"exec": {here, attributesCase{obj: bound("n1"), sub: "exec"},
			`unexpected pod subresource "exec", only 'status' and 'eviction' are allowed`},
		"token": {here, attributesCase{obj: token("pod-uid"), sub: "token",
			resource: "serviceaccounts"}, ""},
		"token without uid": {here, attributesCase{obj: token(""), sub: "token", resource: "serviceaccounts"},
			"node requested token with a pod binding without a uid"},
		"token of a pod gone by": {here, attributesCase{obj: token("old"), sub: "token", resource: "serviceaccounts"},
			"does not match the UID in record"},
		"token of another's pod": {elsewhere, attributesCase{obj: token("pod-uid"), sub: "token",
			resource: "serviceaccounts"}, "node requested token bound to a pod scheduled on a different node"},
		"lease": {here, attributesCase{obj: lease("kube-node-lease", "n1")}, ""},
		"another's lease": {here, attributesCase{obj: lease("kube-node-lease", "n2")},
			"can only access node lease with the same name as the requesting node"},
		"lease elsewhere": {here, attributesCase{obj: lease("ns", "n1")},
			`can only access leases in the "kube-node-lease" system namespace`},
		"nameless node": {here,
			attributesCase{obj: node("n1"),
				by: &user.DefaultInfo{Name: "system:node:", Groups: []string{"system:nodes"}}},
			`could not determine node from user "system:node:"`},
		"evict its pod": {here,
			attributesCase{obj: &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}},
				sub: "eviction", resource: "pods"}, ""},
		"evict another's pod": {elsewhere,
			attributesCase{obj: &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}},
				sub: "eviction", resource: "pods"}, "node n1 can only evict pods with spec.nodeName set to itself"},
		"update a pod": {here, attributesCase{obj: bound("n1"), old: bound("n1")},
			`unexpected operation "UPDATE", node "n1" can only create and delete mirror pods`},
		"claims by status": {here, attributesCase{obj: pod(func(p *corev1.Pod) {
			p.Spec.NodeName, p.Status.ResourceClaimStatuses = "n1", []corev1.PodResourceClaimStatus{{Name: "c"}}
		}), old: bound("n1"), sub: "status"}, `node "n1" cannot update resource claim statues`},
		"extended claim by status": {here, attributesCase{obj: pod(func(p *corev1.Pod) {
			p.Spec.NodeName = "n1"
			p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "c"}
		}), old: bound("n1"), sub: "status"}, `node "n1" cannot update extended resource claim status`},
		"mirror with account": {here,
			attributesCase{obj: mirror(func(p *corev1.Pod) { p.Spec.ServiceAccountName = "x" })},
			`node "n1" can not create pods that reference a service account`},
		"mirror with two owners": {here,
			attributesCase{
				obj: mirror(
					func(p *corev1.Pod) { p.OwnerReferences = append(p.OwnerReferences, p.OwnerReferences[0]) })},
			"single owner reference set to itself"},
		"mirror that blocks": {here,
			attributesCase{obj: mirror(func(p *corev1.Pod) { p.OwnerReferences[0].BlockOwnerDeletion = ptr(true) })},
			`node "n1" must not set blockOwnerDeletion on an owner reference`},
		"mirror with config map": {here, attributesCase{obj: mirror(func(p *corev1.Pod) {
			p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{
				{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{
					Name: "x"}}}}
		})}, `node "n1" can not create pods that reference configmaps`},
		"mirror with claim": {here, attributesCase{obj: mirror(func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{
				{Name: "v", VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "x"}}}}
		})}, `node "n1" can not create pods that reference persistentvolumeclaims`},
		"mirror with devices": {here,
			attributesCase{
				obj: mirror(func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c"}} })},
			`node "n1" can not create pods that reference resourceclaims`},
		"own CSINode": {here,
			attributesCase{obj: &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}}, ""},
		"another's CSINode": {here,
			attributesCase{obj: &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}},
			"can only access CSINode with the same name as the requesting node"},
		"own slice": {here,
			attributesCase{obj: &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"},
				Spec: resourcev1.ResourceSliceSpec{NodeName: ptr("n1")}}}, ""},
		"another's slice": {here,
			attributesCase{obj: &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"},
				Spec: resourcev1.ResourceSliceSpec{NodeName: ptr("n2")}}},
			"can only create ResourceSlice with the same NodeName as the requesting node"},
		"claim by another subres": {here,
			attributesCase{obj: &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns",
				Name: "c"}}}, "may only update PVC status"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.write.by == nil {
				c.write.by = agent
			}
			expect(t, run(t, plugin(t, "NodeRestriction", c.objects...), c.write), c.want)
		})
	}
}

func TestPluginNamesAreUpstreams(t *testing.T) {
	var names []string
	for _, p := range own.Plugins(own.Options{}) {
		names = append(names, p.Name)
	}
	want := "LimitRanger ServiceAccount NodeRestriction TaintNodesByCondition PodSecurity Priority " +
		"DefaultTolerationSeconds DefaultStorageClass PodGroupProtection PersistentVolumeClaimResize RuntimeClass " +
		"CertificateApproval CertificateSigning ClusterTrustBundleAttest CertificateSubjectRestriction " +
		"DefaultIngressClass PodTopologyLabels " +
		"NodeDeclaredFeatureValidator PodResize ResourceQuota"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("plugins: got %s, want %s", got, want)
	}
}
