package fieldpath_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/kubelet/volume/fieldpath"
)

// row: DWN-01
// row: DWN-03
func TestPod(t *testing.T) {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "n", Namespace: "ns", UID: "u",
			Labels:      map[string]string{"b": "2", "app.kubernetes.io/name": "x"},
			Annotations: map[string]string{"note": "two\nlines \"quoted\""},
		},
		Spec: v1.PodSpec{NodeName: "node", ServiceAccountName: "sa"},
	}
	for path, want := range map[string]string{
		"metadata.name": "n", "metadata.namespace": "ns", "metadata.uid": "u", "spec.nodeName": "node",
		"spec.serviceAccountName":                   "sa",
		"metadata.labels":                           "app.kubernetes.io/name=\"x\"\nb=\"2\"",
		"metadata.annotations":                      `note="two\nlines \"quoted\""`,
		"metadata.labels['app.kubernetes.io/name']": "x", "metadata.annotations['note']": "two\nlines \"quoted\"",
		"metadata.labels['none']": "",
	} {
		if got, err := fieldpath.PodField(p, path); err != nil || got != want {
			t.Errorf("%s: %q %v, want %q", path, got, err, want)
		}
	}
	for path, want := range map[string]string{
		"spec.hostname":     "unsupported fieldPath: spec.hostname",
		"metadata.uid['x']": `fieldPath "metadata.uid['x']" does not support subscript`,
	} {
		if _, err := fieldpath.PodField(p, path); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}

// row: DWN-05
// row: DWN-06
func TestResource(t *testing.T) {
	q := resource.MustParse
	p := &v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{{Name: "open"}},
		Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{"cpu": q("50m"), "memory": q("10Mi"), "ephemeral-storage": q("1Gi"),
				"hugepages-2Mi": q("4Mi")},
			Limits: v1.ResourceList{"cpu": q("1500m"), "memory": q("32Mi"), "ephemeral-storage": q("2Gi"),
				"hugepages-2Mi": q("4Mi")},
		}}},
	}}
	node := v1.ResourceList{"cpu": q("2"), "memory": q("4Gi"), "ephemeral-storage": q("10Gi"),
		"hugepages-2Mi": q("1Gi")}
	for _, tc := range []struct{ container, resource, divisor, want string }{
		// recordings/pods/volume-downwardapi
		{"c", "requests.cpu", "1m", "50"}, {"c", "requests.cpu", "0", "1"}, {"c", "limits.cpu", "1", "2"},
		{"c", "limits.cpu", "1m", "1500"},
		{"c", "requests.memory", "0", "10485760"}, {"c", "limits.memory", "1Mi", "32"},
		{"c", "limits.memory", "1Gi", "1"},
		{"c", "requests.ephemeral-storage", "1Mi", "1024"}, {"c", "limits.ephemeral-storage", "1Gi", "2"},
		{"c", "requests.hugepages-2Mi", "1Mi", "4"}, {"c", "limits.hugepages-2Mi", "1", "4194304"},
		{"open", "limits.cpu", "1", "2"}, {"open", "limits.memory", "1Gi", "4"},
		{"open", "limits.ephemeral-storage", "1Gi", "10"},
		{"open", "limits.hugepages-2Mi", "1", "0"}, {"open", "requests.cpu", "1", "0"},
	} {
		got, err := fieldpath.ContainerResource(p, "", &v1.ResourceFieldSelector{ContainerName: tc.container,
			Resource: tc.resource, Divisor: q(tc.divisor)}, node)
		if err != nil || got != tc.want {
			t.Errorf("%s of %s in %s: %q %v, want %s", tc.resource, tc.container, tc.divisor, got, err, tc.want)
		}
	}
	if got, err := fieldpath.ContainerResource(p, "c", &v1.ResourceFieldSelector{Resource: "limits.cpu"},
		node); err != nil || got != "2" {
		t.Errorf("the container that asks is the default: got %q %v, want no error and %q", got, err, "2")
	}
	p.Spec.Resources = &v1.ResourceRequirements{Limits: v1.ResourceList{"memory": q("64Mi"), "hugepages-2Mi": q("8Mi")}}
	for name, want := range map[[2]string]string{{"open", "limits.memory"}: "67108864", {"open", "limits.cpu"}: "2",
		{"open", "requests.memory"}: "0", {"open", "limits.hugepages-2Mi"}: "0", {"c", "limits.memory"}: "33554432"} {
		got, err := fieldpath.ContainerResource(p, "", &v1.ResourceFieldSelector{ContainerName: name[0],
			Resource: name[1]}, node)
		if err != nil || got != want {
			t.Errorf("with a limit of the Pod: %s: got %q %v, want %s", name, got, err, want)
		}
	}
	for _, s := range []v1.ResourceFieldSelector{{ContainerName: "none", Resource: "limits.cpu"},
		{ContainerName: "c", Resource: "limits.gpu"}, {ContainerName: "c", Resource: "cpu"},
		{ContainerName: "open", Resource: "used.cpu"}} {
		if got, err := fieldpath.ContainerResource(p, "", &s, node); err == nil {
			t.Errorf("%+v gives %q", s, got)
		}
	}
}
