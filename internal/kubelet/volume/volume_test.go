package volume_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/test/wrappers"
)

func podOf(mounts ...string) *v1.Pod {
	c := v1.Container{Name: "c"}
	for _, m := range mounts {
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: m})
	}
	return wrappers.MakePod().Namespace("ns").Containers(c).Obj()
}

func TestPlanOfVolumes(t *testing.T) {
	p := podOf("a", "c")
	p.Spec.InitContainers = []v1.Container{{Name: "i", VolumeMounts: []v1.VolumeMount{{Name: "b"}}}}
	for _, name := range []string{"unused", "c", "b", "a"} {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name})
	}
	kind := func(v *v1.Volume, d volume.DirOnDisk) bool { return d.Name == v.Name && d.Plugin == "kind" }
	onDisk := []volume.DirOnDisk{{Plugin: "other", Name: "a"}, {Plugin: "kind", Name: "c"},
		{Plugin: "kind", Name: "gone"}}
	var got []string
	for _, s := range volume.Plan(p, onDisk, kind) {
		got = append(got, string(s.Verb)+" "+s.Dir.Plugin+" "+s.Name)
	}
	want := []string{"tear-down other a", "tear-down kind gone", "set-up  c", "set-up  b", "set-up  a"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the two differ (-want +got):\n%s", d)
	}
	if n := len(volume.Plan(nil, onDisk, nil)); n != 3 {
		t.Errorf("a Pod that is gone wants nothing, %d of 3 torn down", n)
	}
}

func TestReferencedObjects(t *testing.T) {
	p := podOf()
	p.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: "pull"}, {}}
	p.Spec.Containers[0].EnvFrom = []v1.EnvFromSource{
		{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "from"}}},
		{SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "sfrom"}}}}
	p.Spec.InitContainers = []v1.Container{{Env: []v1.EnvVar{
		{ValueFrom: &v1.EnvVarSource{
			SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "key"}}}},
		{ValueFrom: &v1.EnvVarSource{
			ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "ckey"}}}},
		{Name: "plain"},
	}}}
	p.Spec.Volumes = []v1.Volume{
		{VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "vol"}}},
		{VolumeSource: v1.VolumeSource{
			ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "cvol"}}}},
		{VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{Secret: &v1.SecretProjection{LocalObjectReference: v1.LocalObjectReference{Name: "proj"}}},
			{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: "cvol"}}},
		}}}},
	}
	want := map[volume.Ref]bool{}
	for _, s := range []string{"pull", "sfrom", "key", "vol", "proj"} {
		want[volume.Ref{Kind: "Secret", Namespace: "ns", Name: s}] = true
	}
	for _, s := range []string{"from", "ckey", "cvol"} {
		want[volume.Ref{Kind: "ConfigMap", Namespace: "ns", Name: s}] = true
	}
	if d := cmp.Diff(want, volume.Refs(p)); d != "" {
		t.Errorf("the two differ (-want +got):\n%s", d)
	}
}

func TestItemsOfKeys(t *testing.T) {
	mode := int32(0o400)
	data := map[string][]byte{"a": []byte("1"), "b": []byte("2")}
	for name, tc := range map[string]struct {
		items    []v1.KeyToPath
		optional bool
		want     volume.Payload
		err      string
	}{
		"all": {nil, false, volume.Payload{"a": {Data: []byte("1"), Mode: 0o644},
			"b": {Data: []byte("2"), Mode: 0o644}}, ""},
		"one with a mode": {[]v1.KeyToPath{{Key: "a", Path: "x/y", Mode: &mode}}, false,
			volume.Payload{"x/y": {Data: []byte("1"), Mode: 0o400}}, ""},
		// recordings/pods/volume-configmap-item-missing
		"missing": {[]v1.KeyToPath{{Key: "nokey", Path: "x"}}, false, nil,
			"configmap references non-existent config key: nokey"},
		"missing optional": {[]v1.KeyToPath{{Key: "nokey", Path: "x"}}, true, volume.Payload{}, ""},
	} {
		got, err := volume.Source{Items: tc.items, Mode: 0o644, Optional: tc.optional}.Keys(data,
			volume.MissingConfigKey)
		if d := cmp.Diff(tc.want, got); d != "" || (err == nil) != (tc.err == "") ||
			err != nil && err.Error() != tc.err {
			t.Errorf("%s: got error %v, want %q; keys differ (-want +got):\\n%s", name, err, tc.err, d)
		}
	}
}

func TestPayloadCheck(t *testing.T) {
	for name, ok := range map[string]bool{"a": true, "a/b": true, ".hidden": true, "a/..b": true, "": false,
		"/a": false, "../a": false, "a/../b": false, "..data": false, "..2024/x": false, "a//b": false} {
		if err := (volume.Payload{name: {}}).Check(); (err == nil) != ok {
			t.Errorf("%q: got error %v, want it valid: %t", name, err, ok)
		}
	}
}

func TestTokenDue(t *testing.T) {
	at := time.Unix(1_000_000, 0)
	for life, want := range map[time.Duration]time.Duration{
		time.Hour: 48 * time.Minute, 10 * time.Minute: 8 * time.Minute, 365 * 24 * time.Hour: 24 * time.Hour,
		30 * time.Hour: 24 * time.Hour,
	} {
		if got := volume.TokenRefreshTime(at.Add(life), life).Sub(at); got != want {
			t.Errorf("a token of %v is due after %v, want %v", life, got, want)
		}
	}
}

func TestTokenOwner(t *testing.T) {
	one, two := int64(1), int64(2)
	user := func(u *int64) v1.Container { return v1.Container{SecurityContext: &v1.SecurityContext{RunAsUser: u}} }
	p := podOf()
	if volume.TokenOwner(p) != nil {
		t.Error("nobody said who")
	}
	p.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: &one}
	if u := volume.TokenOwner(p); u == nil || *u != 1 {
		t.Errorf("the Pod's user owns the token: got %+v, want 1", u)
	}
	p.Spec.InitContainers = []v1.Container{user(&two)}
	if volume.TokenOwner(p) != nil {
		t.Error("two users cannot both own it")
	}
}

func TestMemoryBound(t *testing.T) {
	q := func(s string) *resource.Quantity { x := resource.MustParse(s); return &x }
	limited := podOf()
	limited.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceMemory: *q("64Mi")}
	node := v1.ResourceList{v1.ResourceMemory: *q("1Gi")}
	for name, tc := range map[string]struct {
		pod   *v1.Pod
		limit *resource.Quantity
		node  v1.ResourceList
		want  int64
	}{
		"sizeLimit is least":   {limited, q("32Mi"), node, 32 << 20},
		"the Pod's limit":      {limited, q("2Gi"), node, 64 << 20},
		"an unlimited Pod":     {podOf(), nil, node, 1 << 30},
		"nothing known":        {podOf(), nil, nil, 0},
		"sizeLimit is too big": {podOf(), q("4Gi"), node, 1 << 30},
	} {
		if got := volume.MemoryLimit(tc.pod, tc.limit, tc.node); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

func TestRequiredObjects(t *testing.T) {
	name := func(n string) v1.LocalObjectReference { return v1.LocalObjectReference{Name: n} }
	p := podOf()
	p.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: "pull"}}
	p.Spec.Volumes = []v1.Volume{
		{VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s"}}},
		{VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s-optional", Optional: new(true)}}},
		{VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: name("c"),
			Optional: new(false)}}},
		{VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: name("c-optional"),
			Optional: new(true)}}},
		{VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: name("pc")}},
			{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: name("pc-optional"), Optional: new(true)}},
			{Secret: &v1.SecretProjection{LocalObjectReference: name("ps")}},
			{Secret: &v1.SecretProjection{LocalObjectReference: name("ps-optional"), Optional: new(true)}},
		}}}},
	}
	want := map[volume.Ref]bool{{Kind: "Secret", Namespace: "ns", Name: "s"}: true,
		{Kind: "ConfigMap", Namespace: "ns", Name: "c"}: true, {Kind: "ConfigMap", Namespace: "ns", Name: "pc"}: true,
		{Kind: "Secret", Namespace: "ns", Name: "ps"}: true}
	if d := cmp.Diff(want, volume.RequiredRefs(p)); d != "" {
		t.Errorf("the two differ (-want +got):\n%s", d)
	}
	if len(volume.Refs(p)) != 9 {
		t.Errorf("asking what is needed changed the Pod: %v, want 9 of them", volume.Refs(p))
	}
}
