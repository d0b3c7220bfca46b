package manifests

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/kubelet/podsource/static"
)

// What is written is what a kubelet takes as static Pods: an API server, a scheduler and
// controllers, in the machine's network, on the data directory, with the kubeconfigs they name.
//
// row: STA-10
func TestManifestsAreStaticPods(t *testing.T) {
	data, out := t.TempDir(), t.TempDir()
	c := New(cli.IO{Out: &bytes.Buffer{}})
	c.SetArgs([]string{"--data-dir", data, "--out", out, "--image", "registry.test/gantry:1", "--node-name", "cp-1",
		"--advertise-address", "192.0.2.1"})
	if err := c.Execute(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(out, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var names, parts []string
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m, err := static.ParsePod(raw, static.Origin{Source: "file", Location: file, Node: "cp-1"}, static.Rules{
			Default: func(*v1.Pod) {}, Validate: func(*v1.Pod) field.ErrorList { return nil }}, time.Now())
		if err != nil {
			t.Fatalf("%s: got error %v, want none", file, err)
		}
		s := m.Pod.Spec
		names, parts = append(names, m.Pod.Namespace+"/"+m.Pod.Name), append(parts, s.Containers[0].Command[1])
		if !s.HostNetwork || s.Volumes[0].HostPath.Path != data || s.Containers[0].VolumeMounts[0].MountPath != data ||
			s.Containers[0].Image != "registry.test/gantry:1" || *s.Priority != 2000001000 {
			t.Errorf("%s: got %+v, want the machine's network, %s mounted, the image and the highest priority",
				m.Pod.Name, s, data)
		}
		for _, word := range s.Containers[0].Command {
			if strings.HasPrefix(word, data+"/") && !cli.Readable(word) {
				t.Errorf("%s: the command names %s, which was not written", m.Pod.Name, word)
			}
		}
	}
	if want := []string{"kube-system/gantry-apiserver-cp-1", "kube-system/gantry-controllers-cp-1",
		"kube-system/gantry-scheduler-cp-1"}; !slices.Equal(names, want) {
		t.Errorf("got Pods %v, want %v", names, want)
	}
	if want := []string{"server", "controllers", "scheduler"}; !slices.Equal(parts, want) {
		t.Errorf("got parts %v, want %v", parts, want)
	}
	if !cli.Readable(filepath.Join(data, "kubelet.kubeconfig")) {
		t.Error("the kubelet's kubeconfig was not written")
	}
}
