package podinformer

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"
)

func encoded(t *testing.T, o runtime.Object, kind string) []byte {
	t.Helper()
	return encodedAs(t, o, v1.SchemeGroupVersion.WithKind(kind))
}

func encodedAs(t *testing.T, o runtime.Object, kind schema.GroupVersionKind) []byte {
	t.Helper()
	o.GetObjectKind().SetGroupVersionKind(kind)
	var b bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(o, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func decoderOf(r *resourceType) decoder {
	return decoder{protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), r, &valueCache{}}
}

func newDecoder() decoder {
	return decoderOf(&resourceTypes[0])
}

// trimmedPod says in terms of the API what is left out.
func trimmedPod(p *v1.Pod) {
	p.TypeMeta = metav1.TypeMeta{}
	p.SelfLink, p.ManagedFields = "", nil //nolint:staticcheck // it is left out because it is read by nobody
	s := &p.Spec
	s.Hostname, s.EphemeralContainers = "", nil
	for _, list := range [][]v1.Container{s.Containers, s.InitContainers} {
		for i := range list {
			c := &list[i]
			c.Command, c.Args, c.WorkingDir, c.Env, c.EnvFrom, c.TerminationMessagePath,
				c.TerminationMessagePolicy = nil, nil, "", nil, nil, "", ""
			c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = nil, nil, nil
			var mounts []v1.VolumeMount
			for _, m := range c.VolumeMounts {
				if len(m.BindMountOptions) > 0 {
					mounts = append(mounts, m)
				}
			}
			c.VolumeMounts = mounts
		}
	}
	var volumes []v1.Volume
	for _, v := range s.Volumes {
		if v.HostPath == nil && v.Secret == nil && v.NFS == nil && v.DownwardAPI == nil && v.ConfigMap == nil &&
			v.Projected == nil {
			volumes = append(volumes, v)
		}
	}
	s.Volumes = volumes
	p.Status.HostIP, p.Status.PodIP, p.Status.HostIPs, p.Status.PodIPs, p.Status.EphemeralContainerStatuses,
		p.Status.VolumeHealth = "", "", nil, nil, nil, nil
	for _, list := range [][]v1.ContainerStatus{p.Status.ContainerStatuses, p.Status.InitContainerStatuses} {
		for i, c := range list {
			list[i] = v1.ContainerStatus{Name: c.Name, AllocatedResources: c.AllocatedResources, Resources: c.Resources}
		}
	}
}

// Random Pods with every field: what is decoded is what an ordinary decoder gives, but for what is
// meant to be left out.
func TestAPodIsDecodedButForWhatIsLeftOut(t *testing.T) {
	ordinary := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	fill := randfill.NewWithSeed(1).NilChance(0.3).NumElements(0, 3).MaxDepth(12).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewQuantity(c.Int63n(1000), resource.DecimalSI)
		},
		func(s *v1.VolumeSource, c randfill.Continue) { // one of them, as the API has it
			for i := range 8 {
				if c.Intn(4) == 0 {
					*s = [8]v1.VolumeSource{{}, {HostPath: &v1.HostPathVolumeSource{Path: "/x"}},
						{EmptyDir: &v1.EmptyDirVolumeSource{Medium: "Memory"}},
						{Projected: &v1.ProjectedVolumeSource{}},
						{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}},
						{Secret: &v1.SecretVolumeSource{SecretName: "s"}}, {CSI: &v1.CSIVolumeSource{Driver: "d"}},
						{Ephemeral: &v1.EphemeralVolumeSource{}}}[i]
					return
				}
			}
		})
	d := newDecoder()
	for i := range 300 {
		p := &v1.Pod{}
		fill.Fill(p)
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "v"})
		raw := encoded(t, p, "Pod")
		want, _, err := ordinary.Decode(raw, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		trimmedPod(want.(*v1.Pod))
		for _, again := range []string{"first", "from what is known"} {
			got, kind, err := d.Decode(raw, nil, nil)
			if err != nil || *kind != v1.SchemeGroupVersion.WithKind("Pod") {
				t.Fatalf("Pod %d, %s: %v, %v", i, again, kind, err)
			}
			if !equality.Semantic.DeepEqual(got, want) {
				t.Fatalf("Pod %d, %s:\n%s", i, again, cmp.Diff(want, got))
			}
		}
	}
}

// Pods of one template share what is equal, and only that.
func TestEqualPodsShare(t *testing.T) {
	d := newDecoder()
	template := v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{"app": "web"}},
		Spec: v1.PodSpec{
			Containers: []v1.Container{{Name: "c", Image: "i", Env: []v1.EnvVar{{Name: "A", Value: "b"}}}}}}
	list := &v1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
	for i, name := range []string{"a", "b", "c"} {
		p := template.DeepCopy()
		p.Name, p.Spec.NodeName = name, []string{"", "n1", "n2"}[i]
		p.Spec.Volumes = []v1.Volume{
			{Name: "token-" + name, VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{}}}}
		p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "token-" + name, MountPath: "/t"}}
		list.Items = append(list.Items, *p)
	}
	out, _, err := d.Decode(encoded(t, list, "PodList"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := out.(*v1.PodList)
	if len(got.Items) != 3 || got.ResourceVersion != "7" {
		t.Fatalf("%d Pods of version %s, want 3, 7", len(got.Items), got.ResourceVersion)
	}
	first := &got.Items[0]
	for i := range got.Items {
		p := &got.Items[i]
		if p.Name != list.Items[i].Name || p.Namespace != "ns" || p.Labels["app"] != "web" ||
			p.Spec.NodeName != list.Items[i].Spec.NodeName {
			t.Errorf("Pod %d is %s/%s %v on %q", i, p.Namespace, p.Name, p.Labels, p.Spec.NodeName)
		}
		if &p.Spec.Containers[0] != &first.Spec.Containers[0] {
			t.Errorf("Pod %d has containers of its own", i)
		}
	}
}

// What does not fit the picture is left to the ordinary decoder, whose error says what is wrong.
func TestUnknownEncodingsGoToTheOrdinaryDecoder(t *testing.T) {
	d := newDecoder()
	o, _, err := d.Decode(encoded(t, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, "Node"), nil, nil)
	if n, ok := o.(*v1.Node); err != nil || !ok || n.Name != "n" {
		t.Errorf("got %v, %v, want no error, found true and Name n", o, err)
	}
	raw := encoded(t, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, "Pod")
	for size := range raw {
		_, _, want := d.Serializer.Decode(raw[:size], nil, nil)
		if _, _, err := d.Decode(raw[:size], nil, nil); (err == nil) != (want == nil) {
			t.Errorf("the first %d of %d bytes: %v, want %v", size, len(raw), err, want)
		}
	}
}

// What nobody asked for in a long time is forgotten, so that memory has a bound.
func TestSharedValuesAreBounded(t *testing.T) {
	d := newDecoder()
	for i := range 3 * maxSharedValues {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns",
			Labels: map[string]string{"n": resource.NewQuantity(int64(i), resource.DecimalSI).String()}}}
		if _, _, err := d.Decode(encoded(t, p, "Pod"), nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(d.valueCache.meta.current) + len(d.valueCache.meta.previous); n > 2*maxSharedValues {
		t.Errorf("%d values are remembered, want at most %d", n, 2*maxSharedValues)
	}
}
