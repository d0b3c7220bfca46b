package volume

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestHugePage(t *testing.T) {
	asks := func(sizes ...string) *v1.Pod {
		p := &v1.Pod{}
		for _, s := range sizes {
			p.Spec.Containers = append(p.Spec.Containers,
				v1.Container{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
					v1.ResourceName(v1.ResourceHugePagesPrefix + s): resource.MustParse("1Gi"),
				}}})
		}
		return p
	}
	for _, c := range []struct {
		pod       *v1.Pod
		medium    v1.StorageMedium
		want, err string
	}{
		{asks("2Mi"), "HugePages", "2Mi", ""},
		{asks("2Mi", "2Mi"), "HugePages", "2Mi", ""},
		{asks("2Mi", "1Gi"), "HugePages", "",
			"medium: HugePages can't be used if container requests multiple huge page sizes"},
		{asks("2Mi", "1Gi"), "HugePages-1Gi", "1Gi", ""},
		{asks("2Mi"), "HugePages-1Gi", "",
			"medium HugePages-1Gi: hugePages storage requested, but there is no resource request for huge pages"},
		{asks(), "HugePages", "",
			"medium HugePages: hugePages storage requested, but there is no resource request for huge pages"},
	} {
		got, err := HugePage(c.pod, c.medium)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("%s: got %q %v, want %q, error %q", c.medium, got, err, c.want, c.err)
		}
	}
}

func TestRest(t *testing.T) {
	for n, want := range map[int]time.Duration{0: 500 * time.Millisecond, 1: 500 * time.Millisecond, 2: time.Second,
		3: 2 * time.Second, 8: 64 * time.Second, 9: 122 * time.Second, 1000: 122 * time.Second} {
		if got := BackOff(n); got != want {
			t.Errorf("after %d failures: %s, want %s", n, got, want)
		}
	}
}
