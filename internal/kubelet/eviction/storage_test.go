package eviction_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/kubelet/eviction"
	"github.com/gantry-project/gantry/test/wrappers"
)

const mi = 1 << 20

func pod(dir string, limits ...string) *v1.Pod {
	p := wrappers.MakePod().Obj()
	if dir != "" {
		size := resource.MustParse(dir)
		p.Spec.Volumes = []v1.Volume{
			{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: &size}}}}
	}
	for i, l := range limits {
		c := v1.Container{Name: string(rune('a' + i))}
		if l != "" {
			c.Resources.Limits = v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse(l)}
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	return p
}

func TestLocalStorageEviction(t *testing.T) {
	for _, tc := range []struct {
		name string
		pod  *v1.Pod
		use  eviction.Usage
		want string
	}{
		{"within", pod("2Mi"), eviction.Usage{Volumes: map[string]int64{"v": 2 * mi}}, ""},
		{"an emptyDir", pod("2Mi"), eviction.Usage{Volumes: map[string]int64{"v": 2*mi + 1}},
			`Usage of EmptyDir volume "v" exceeds the limit "2Mi". `},
		{"the Pod: layers, logs, volumes together", pod("", "1Mi", "1Mi"), eviction.Usage{
			Volumes: map[string]int64{"v": mi, "memory": 9 * mi}, Shared: map[string]bool{"v": true},
			WritableLayers: mi, Logs: 1,
		}, "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. "},
		{"memory is not local storage", pod("", "2Mi"), eviction.Usage{Volumes: map[string]int64{"memory": 9 * mi}},
			""},
		{"a container, though the Pod has room", pod("", "1Mi", "8Mi"),
			eviction.Usage{Containers: map[string]int64{"a": 2 * mi, "b": mi}, WritableLayers: 3 * mi},
			`Container a exceeded its local ephemeral storage limit "1Mi". `},
		{"no limit", pod("", ""), eviction.Usage{Containers: map[string]int64{"a": 1 << 40}, WritableLayers: 1 << 40},
			""},
	} {
		end, _ := eviction.LocalStorageEviction(tc.pod, tc.use, time.Unix(9, 0))
		switch {
		case end == nil && tc.want != "":
			t.Errorf("%s: not evicted", tc.name)
		case end != nil && (end.Message != tc.want || end.Reason != "Evicted" || end.Grace != time.Second ||
			end.Victim != ""):
			t.Errorf("%s: got %+v, want Message %v, Reason Evicted, Grace Second and Victim empty", tc.name, *end,
				tc.want)
		}
	}
}

func TestFactListsStorageParts(t *testing.T) {
	use := eviction.Usage{Volumes: map[string]int64{"v": 5 * mi, "memory": 9 * mi}, Shared: map[string]bool{"v": true},
		Containers: map[string]int64{"a": 3 * mi}, ContainerLogs: map[string]int64{"a": 2 * mi}, WritableLayers: 3 * mi,
		Logs: 7}
	for _, tc := range []struct {
		pod  *v1.Pod
		want string
	}{
		{pod("4Mi"), "takes 5Mi of local storage, sizeLimit of volume v is 4Mi"},
		{pod("", "4Mi"),
			"takes about 8Mi of local storage, the ephemeral-storage limits of its containers are 4Mi in all: volume " +
				"v 5Mi, writable layers 3Mi, logs 7"},
		{pod("", "2Mi", "99Mi"),
			"takes 3Mi of local storage, the ephemeral-storage limit of container a is 2Mi: logs 2Mi, writable layer " +
				"1Mi"},
	} {
		if _, got := eviction.LocalStorageEviction(tc.pod, use, time.Unix(9, 0)); got.Line() != tc.want {
			t.Errorf("%s, want %s", got.Line(), tc.want)
		}
	}
}

func TestOnlyPodsWithLimitsAreMeasured(t *testing.T) {
	for _, tc := range []struct {
		pod  *v1.Pod
		want bool
	}{{pod(""), false}, {pod("", ""), false}, {pod("1Mi"), true}, {pod("", "", "1Gi"), true}} {
		if eviction.HasStorageLimits(tc.pod) != tc.want {
			t.Errorf("%+v: want %v", tc.pod.Spec, tc.want)
		}
	}
}
