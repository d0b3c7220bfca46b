package lint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/explain/gather"
	"github.com/gantry-project/gantry/internal/probelint"
)

// lintBatch is everything one call of lint checks.
type lintBatch struct {
	workloads []lintWorkload
	services  []corev1.Service
}

// lintWorkload is a workload with the number of Pods that have the same text and were left out for
// it.
type lintWorkload struct {
	probelint.Workload
	duplicates int
}

// readFiles reads files, directories (their .yaml, .yml and .json files, and those below) and
// standard input.
func readFiles(names []string, stdin io.Reader) (lintBatch, error) {
	var b lintBatch
	if err := cli.ReadManifests(names, stdin, b.read); err != nil {
		return b, err
	}
	if len(b.workloads) == 0 {
		return b, cli.WithFix(errors.New("there is no Pod and no Pod template in the input"),
			"name files that hold Pods, or kinds with a Pod template, with -f")
	}
	return b, nil
}

// read reads one document.
func (b *lintBatch) read(source string, doc []byte) error {
	object := map[string]any{}
	if err := yaml.Unmarshal(doc, &object); err != nil {
		return cli.WithFix(err, "check that it is YAML or JSON")
	}
	if len(object) == 0 {
		return nil // comments only
	}
	found, services, err := probelint.Read(source, object)
	if err != nil {
		return cli.WithFix(err, "check that it is a Kubernetes object")
	}
	for _, w := range found {
		b.workloads = append(b.workloads, lintWorkload{Workload: w})
	}
	b.services = append(b.services, services...)
	return nil
}

// readCluster reads Pods from the API server. Of Pods that one owner made alike one is checked.
func (l *lintCommand) readCluster(ctx context.Context, args []string) (lintBatch, error) {
	var b lintBatch
	named := l.Namespace != ""
	client, err := l.NewClient()
	if err != nil {
		return b, err
	}
	var pods []corev1.Pod
	if l.all {
		namespace := metav1.NamespaceAll
		if named {
			namespace = l.Namespace
		}
		list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return b, err
		}
		pods = list.Items
	}
	for _, arg := range args {
		name, err := cli.PodName(arg)
		if err != nil {
			return b, err
		}
		p, err := gather.FindPod(ctx, client, l.Namespace, name)
		if err != nil {
			return b, err
		}
		if p == nil {
			return b, cli.WithFix(fmt.Errorf("there is no pod %s in namespace %s", name, l.Namespace),
				"check name and namespace (-n)")
		}
		pods = append(pods, *p)
	}
	b.services, err = servicesOf(ctx, client, pods)
	b.workloads = distinctWorkloads(pods)
	return b, err
}

// servicesOf reads the Services of the Pods' namespaces; those that may not be read are left out.
func servicesOf(ctx context.Context, client kubernetes.Interface, pods []corev1.Pod) ([]corev1.Service, error) {
	var out []corev1.Service
	seen := map[string]bool{}
	for _, p := range pods {
		if seen[p.Namespace] {
			continue
		}
		seen[p.Namespace] = true
		list, err := client.CoreV1().Services(p.Namespace).List(ctx, metav1.ListOptions{})
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, list.Items...)
	}
	return out, nil
}

// distinctWorkloads turns Pods into workloads, one for each owner; how long the slowest of them
// took to become ready counts.
func distinctWorkloads(pods []corev1.Pod) []lintWorkload {
	var out []lintWorkload
	at := map[string]int{}
	for i := range pods {
		p := &pods[i]
		key := p.Namespace + "/" + p.Name
		if o := metav1.GetControllerOf(p); o != nil {
			key = string(o.UID) + "/" + p.Labels["pod-template-hash"] + p.Labels["controller-revision-hash"]
		}
		started := startupTimes(p)
		n, known := at[key]
		if !known {
			at[key] = len(out)
			out = append(out, lintWorkload{Workload: probelint.Workload{
				Source: "cluster", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, Path: "spec", Labels: p.Labels,
				Spec: p.Spec, Replicas: 1, Started: started,
			}})
			continue
		}
		out[n].duplicates++
		out[n].Replicas++
		for name, d := range started {
			out[n].Started[name] = max(out[n].Started[name], d)
		}
	}
	return out
}

// startupTimes is how long containers that never restarted took to become ready, for Pods of one
// container: the Pod's condition tells of the slowest only.
func startupTimes(p *corev1.Pod) map[string]time.Duration {
	out := map[string]time.Duration{}
	i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.ContainersReady && c.Status == corev1.ConditionTrue
	})
	if i < 0 || len(p.Spec.Containers) != 1 || len(p.Status.ContainerStatuses) != 1 {
		return out
	}
	s := p.Status.ContainerStatuses[0]
	if s.State.Running == nil || s.RestartCount > 0 ||
		p.Spec.Containers[0].ReadinessProbe == nil && p.Spec.Containers[0].StartupProbe == nil {
		return out
	}
	// A container that was unready for a while is ready since later than its start took; more than
	// ten minutes are no start.
	if took := p.Status.Conditions[i].LastTransitionTime.Sub(s.State.Running.StartedAt.Time); took > 0 &&
		took < 10*time.Minute {
		out[s.Name] = took
	}
	return out
}
