package resourcequota

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/gantry-project/gantry/test/wrappers"
)

var list = wrappers.ResourceList

// quotaTest is the plugin over one quota in namespace ns.
type quotaTest struct {
	plugin admission.ValidationInterface
	client *fake.Clientset
}

func with(t *testing.T, spec corev1.ResourceQuotaSpec, used corev1.ResourceList) quotaTest {
	t.Helper()
	q := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "q"}, Spec: spec,
		Status: corev1.ResourceQuotaStatus{Hard: spec.Hard, Used: used},
	}
	c := fake.NewSimpleClientset(q)
	f := informers.NewSharedInformerFactory(c, 0)
	p, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	p.(initializer.WantsDrainedNotification).SetDrainedNotification(t.Context().Done())
	p.(initializer.WantsExternalKubeClientSet).SetExternalKubeClientSet(c)
	p.(initializer.WantsExternalKubeInformerFactory).SetExternalKubeInformerFactory(f)
	if err := p.(admission.InitializationValidator).ValidateInitialization(); err != nil {
		t.Fatal(err)
	}
	f.Start(t.Context().Done())
	f.WaitForCacheSync(t.Context().Done())
	return quotaTest{p.(admission.ValidationInterface), c}
}

// write asks about a write; old makes it an update.
func (w quotaTest) write(t *testing.T, sub string, obj, old runtime.Object) error {
	t.Helper()
	gvr := corev1.SchemeGroupVersion.WithResource("pods")
	switch obj.(type) {
	case *corev1.Service:
		gvr.Resource = "services"
	case *corev1.PersistentVolumeClaim:
		gvr.Resource = "persistentvolumeclaims"
	case *corev1.ConfigMap:
		gvr.Resource = "configmaps"
	}
	op := admission.Create
	if old != nil {
		op = admission.Update
	}
	a := admission.NewAttributesRecord(obj, old, corev1.SchemeGroupVersion.WithKind("Any"), "ns", "x", gvr, sub, op,
		nil, false, nil)
	return w.plugin.Validate(t.Context(), a, nil)
}

func (w quotaTest) used(t *testing.T, name corev1.ResourceName) string {
	t.Helper()
	q, err := w.client.CoreV1().ResourceQuotas("ns").Get(t.Context(), "q", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n := q.Status.Used[name]
	return n.String()
}

func expect(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("got %v, want %q", err, want)
	}
}

func container(name string, asked, bound corev1.ResourceList) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: asked, Limits: bound}}
}

func pod(change func(*corev1.PodSpec)) *corev1.Pod {
	p := wrappers.MakePod().Namespace("ns").Name("x").Obj()
	change(&p.Spec)
	return p
}

func TestQuotaRefuses(t *testing.T) {
	hard := func(kv ...string) corev1.ResourceQuotaSpec { return corev1.ResourceQuotaSpec{Hard: list(kv...)} }
	two := pod(func(s *corev1.PodSpec) {
		s.Containers = []corev1.Container{container("c", list("cpu", "2", "memory", "2Gi"), nil)}
	})
	noResources := pod(func(s *corev1.PodSpec) { s.Containers = []corev1.Container{{Name: "c"}, {Name: "a"}} })
	whole := pod(func(s *corev1.PodSpec) {
		s.Containers = []corev1.Container{{Name: "c"}}
		s.Resources = &corev1.ResourceRequirements{Requests: list("cpu", "500m")}
	})
	ported := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort,
		Ports: []corev1.ServicePort{{Port: 80}}}}
	claim := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: new("gold"), Resources: corev1.VolumeResourceRequirements{Requests: list("storage", "1Gi")},
	}}
	urgent := pod(func(s *corev1.PodSpec) { s.PriorityClassName = "urgent" })
	byClass := corev1.ResourceQuotaSpec{Hard: list("pods", "0"),
		ScopeSelector: &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{
			ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn,
			Values: []string{"urgent"},
		}}}}
	bestEffort := corev1.ResourceQuotaSpec{Hard: list("pods", "0"),
		Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}}
	for name, c := range map[string]struct {
		spec corev1.ResourceQuotaSpec
		used corev1.ResourceList
		obj  runtime.Object
		want string
	}{
		"two resources": {hard("requests.cpu", "1", "requests.memory", "1Gi"),
			list("requests.cpu", "0", "requests.memory", "0"), two,
			"exceeded quota: q, requested: requests.cpu=2,requests.memory=2Gi, used: " +
				"requests.cpu=0,requests.memory=0, limited: requests.cpu=1,requests.memory=1Gi"},
		"says nothing": {hard("requests.cpu", "1", "limits.memory", "1Gi"),
			list("requests.cpu", "0", "limits.memory", "0"), noResources,
			"failed quota: q: must specify limits.memory for: a,c; requests.cpu for: a,c"},
		"Pod-level requests speak for all": {hard("requests.cpu", "1"), list("requests.cpu", "0"), whole, ""},
		"Pod-level requests count": {hard("requests.cpu", "1"), list("requests.cpu", "600m"), whole,
			"requested: requests.cpu=500m, used: requests.cpu=600m"},
		"plain name means requests": {hard("cpu", "1"), list("cpu", "0"), two,
			"exceeded quota: q, requested: cpu=2"},
		"not counted yet": {hard("pods", "5"), nil, two,
			"status unknown for quota: q, resources: pods"},
		"node ports": {hard("services.nodeports", "0"), list("services.nodeports", "0"), ported,
			"exceeded quota: q, requested: services.nodeports=1"},
		"storage": {hard("requests.storage", "1Mi"), list("requests.storage", "0"), claim,
			"exceeded quota: q, requested: requests.storage=1Gi, used: requests.storage=0, limited: " +
				"requests.storage=1Mi"},
		"storage of a class": {hard("gold.storageclass.storage.k8s.io/requests.storage", "1Mi"),
			list("gold.storageclass.storage.k8s.io/requests.storage", "0"), claim, "exceeded quota"},
		"storage of another class": {hard("tin.storageclass.storage.k8s.io/requests.storage", "1Mi"),
			list("tin.storageclass.storage.k8s.io/requests.storage", "0"), claim, ""},
		"any kind by number": {hard("count/configmaps", "0"), list("count/configmaps", "0"),
			&corev1.ConfigMap{}, "exceeded quota: q, requested: count/configmaps=1"},
		"a kind by its old name": {hard("configmaps", "0"), list("configmaps", "0"), &corev1.ConfigMap{},
			"exceeded quota: q, requested: configmaps=1"},
		"scope of a priority class": {byClass, list("pods", "0"), urgent,
			"exceeded quota: q, requested: pods=1"},
		"scope of another priority class":    {byClass, list("pods", "0"), two, ""},
		"scope of best effort, and it is":    {bestEffort, list("pods", "0"), noResources, "exceeded quota"},
		"scope of best effort, and it isn't": {bestEffort, list("pods", "0"), two, ""},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, with(t, c.spec, c.used).write(t, "", c.obj.DeepCopyObject(), nil), c.want)
		})
	}
}

// A Pod counts by its effective request: the larger of its init container's and the sum of the
// others'.
// row: API-45
func TestQuotaCountsTheEffectiveRequest(t *testing.T) {
	w := with(t, corev1.ResourceQuotaSpec{Hard: list("requests.cpu", "10", "limits.cpu", "10", "pods", "5")},
		list("requests.cpu", "0", "limits.cpu", "0", "pods", "0"))
	p := pod(func(s *corev1.PodSpec) {
		s.InitContainers = []corev1.Container{container("i", list("cpu", "3"), list("cpu", "3"))}
		s.Containers = []corev1.Container{container("a", list("cpu", "1"), list("cpu", "2")),
			container("b", list("cpu", "1"), list("cpu", "2"))}
	})
	expect(t, w.write(t, "", p, nil), "")
	for name, want := range map[corev1.ResourceName]string{"requests.cpu": "3", "limits.cpu": "4", "pods": "1"} {
		if got := w.used(t, name); got != want {
			t.Errorf("%s used %s, want %s", name, got, want)
		}
	}
}

func TestQuotaCountsWhatAResizeAdds(t *testing.T) {
	w := with(t, corev1.ResourceQuotaSpec{Hard: list("requests.cpu", "1500m")}, list("requests.cpu", "1"))
	asks := func(cpu string) *corev1.Pod {
		p := pod(func(s *corev1.PodSpec) { s.Containers = []corev1.Container{container("c", list("cpu", cpu), nil)} })
		p.ResourceVersion = "7"
		return p
	}
	expect(t, w.write(t, "resize", asks("2"), asks("1")),
		"exceeded quota: q, requested: requests.cpu=1, used: requests.cpu=1, limited: requests.cpu=1500m")
	expect(t, w.write(t, "resize", asks("1200m"), asks("1")), "")
	expect(t, w.write(t, "", asks("9"), asks("1")), "")
	if got := w.used(t, "requests.cpu"); got != "1200m" {
		t.Errorf("used %s, want 1200m", got)
	}
}
