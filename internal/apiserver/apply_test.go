package apiserver

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	restclient "k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/cmd/apply"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
)

// kubectlApply runs `kubectl apply -f` on a text and returns the lines it prints, sorted.
func kubectlApply(t *testing.T, s *Server, ns, text string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "all.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := genericclioptions.NewConfigFlags(false).WithWrapConfigFn(func(*restclient.Config) *restclient.Config {
		return s.InProcess(admin())
	})
	flags.APIServer, flags.Namespace, flags.CacheDir = new(inProcessHost), &ns, new(t.TempDir())
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	cmdutil.BehaviorOnFatal(func(text string, code int) { fmt.Fprintf(errOut, "%s (%d)\n", text, code) })
	defer cmdutil.DefaultBehaviorOnFatal()
	cmd := apply.NewCmdApply("kubectl", cmdutil.NewFactory(flags), streams)
	cmd.SetArgs([]string{"-f", file})
	if err := cmd.Execute(); err != nil || errOut.Len() > 0 {
		t.Errorf("kubectl apply: %v\n%s", err, errOut)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	slices.Sort(lines)
	return lines
}

// kubectl apply makes and changes objects of the kinds in the examples, and sees when there is
// nothing to change.
// row: API-43
func TestKubectlApplies(t *testing.T) {
	s, c := shared(t)
	ns := newNamespace(t, c)
	const text = `
{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {containers: [{name: c, image: "i:1"}]}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {a: b}}
---
{apiVersion: v1, kind: Service, metadata: {name: x}, spec: {selector: {a: b}, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: x}, spec: {accessModes: [ReadWriteOnce],
  resources: {requests: {storage: 1Gi}}}}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: x}, spec: {serviceName: x, selector: {matchLabels: {a: b}},
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: "i:1"}]}}}}
---
{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: x}, spec: {selector: {matchLabels: {a: b}},
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: "i:1"}]}}}}
---
{apiVersion: batch/v1, kind: CronJob, metadata: {name: x}, spec: {schedule: "0 * * * *", jobTemplate: {spec: {
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: "i:1"}]}}}}}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: x}, spec: {replicas: 1, selector: {matchLabels: {a: b}},
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: "i:1"}]}}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: x}, spec: {template: {spec: {restartPolicy: Never,
  containers: [{name: c, image: "i:1"}]}}}}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: x}, spec: {minAvailable: 1,
  selector: {matchLabels: {a: b}}}}
`
	const budget = "poddisruptionbudget.policy/x"
	names := []string{"configmap/x", "cronjob.batch/x", "daemonset.apps/x", "deployment.apps/x", "job.batch/x",
		"persistentvolumeclaim/x", "pod/x", budget, "service/x", "statefulset.apps/x"}
	expected := func(word string, except ...string) []string {
		var out []string
		for _, n := range names {
			if slices.Contains(except, n) {
				out = append(out, n+" configured")
			} else {
				out = append(out, n+" "+word)
			}
		}
		return out
	}
	changed := strings.NewReplacer(`name: x}, spec: {containers: [{name: c, image: "i:1"`,
		`name: x}, spec: {containers: [{name: c, image: "i:2"`, "data: {a: b}", "data: {a: c}", "replicas: 1",
		"replicas: 3", "port: 80", "port: 81", "0 * * * *", "5 * * * *").Replace(text)
	for _, step := range []struct {
		text string
		want []string
	}{
		{text, expected("created")},
		// A budget's selector is replaced as a whole (patchStrategy), so kubectl always sends it
		// and never says "unchanged".
		{text, expected("unchanged", budget)},
		{changed, expected("unchanged", budget, "configmap/x", "pod/x", "deployment.apps/x", "service/x",
			"cronjob.batch/x")},
	} {
		if got := kubectlApply(t, s, ns, step.text); !slices.Equal(got, step.want) {
			t.Errorf("printed\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(step.want, "\n"))
		}
	}
	p := mustCreate[*corev1.Pod](t)(c.CoreV1().Pods(ns).Get(t.Context(), "x", metav1.GetOptions{}))
	d := mustCreate[*appsv1.Deployment](t)(c.AppsV1().Deployments(ns).Get(t.Context(), "x", metav1.GetOptions{}))
	m := mustCreate[*corev1.ConfigMap](t)(c.CoreV1().ConfigMaps(ns).Get(t.Context(), "x", metav1.GetOptions{}))
	if p.Spec.Containers[0].Image != "i:2" || *d.Spec.Replicas != 3 || m.Data["a"] != "c" {
		t.Errorf("image %s, %d replicas, data %v, want i:2, 3 and c", p.Spec.Containers[0].Image, *d.Spec.Replicas,
			m.Data)
	}
}
