package main

import (
	"context"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Images that the machine has.
const (
	agnhost = "registry.example/agnhost:1"
	busybox = "registry.example/busybox:1"
)

// workload is a Pod of one container.
type workload struct {
	name, image   string
	command       []string
	requests      string // "cpu=1,memory=100Mi"
	limits        string
	bound         bool // to the node, past the scheduler
	scratchVolume bool // an emptyDir at /scratch
}

func (w workload) pod() *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: w.name}}
	p.Spec = v1.PodSpec{
		RestartPolicy: v1.RestartPolicyNever, DNSPolicy: v1.DNSDefault, TerminationGracePeriodSeconds: new(int64),
		AutomountServiceAccountToken: new(bool), EnableServiceLinks: new(bool),
		Containers: []v1.Container{{Name: "app", Image: w.image, Command: w.command,
			ImagePullPolicy: v1.PullNever,
			Resources:       v1.ResourceRequirements{Requests: resources(w.requests), Limits: resources(w.limits)}}},
	}
	if w.bound {
		p.Spec.NodeName = nodeName
	}
	if w.scratchVolume {
		p.Spec.Volumes = []v1.Volume{{Name: "scratch",
			VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
		p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}}
	}
	return p
}

func resources(text string) v1.ResourceList {
	out := v1.ResourceList{}
	for part := range strings.SplitSeq(text, ",") {
		if name, amount, ok := strings.Cut(part, "="); ok {
			out[v1.ResourceName(name)] = resource.MustParse(amount)
		}
	}
	return out
}

// eat is a command that holds so many MiB.
func eat(mib string, rate ...string) []string {
	return append([]string{"/agnhost", "eat", mib}, rate...)
}

// create creates a Pod.
func (n *node) create(ctx context.Context, w workload) error {
	_, err := n.api.CoreV1().Pods("default").Create(ctx, w.pod(), metav1.CreateOptions{})
	return err
}

// start creates Pods and waits until they run.
func (n *node) start(ctx context.Context, list ...workload) error {
	for _, w := range list {
		if err := n.create(ctx, w); err != nil {
			return err
		}
	}
	for _, w := range list {
		if _, err := n.view.waitPod(w.name, "runs", running); err != nil {
			return err
		}
	}
	return nil
}

func running(p *v1.Pod) bool { return p.Status.Phase == v1.PodRunning }
func failed(p *v1.Pod) bool  { return p.Status.Phase == v1.PodFailed }

// podCgroup is the directory of a Pod's cgroup; empty when it is gone.
func (n *node) podCgroup(name string) string {
	p := n.view.pod(name)
	if p == nil {
		return ""
	}
	return cgroupNamed("pod" + strings.ReplaceAll(string(p.UID), "-", "_") + ".slice")
}

// containerCgroup is the directory of the cgroup of a Pod's one container; empty when it is gone.
func (n *node) containerCgroup(name string) string {
	p := n.view.pod(name)
	if p == nil || len(p.Status.ContainerStatuses) == 0 {
		return ""
	}
	_, id, _ := strings.Cut(p.Status.ContainerStatuses[0].ContainerID, "://")
	if id == "" {
		return ""
	}
	return cgroupNamed(id + ".scope")
}

// unharmed expects that Pods run on, and no container of theirs was started again.
func (n *node) unharmed(names ...string) {
	for _, name := range names {
		p := n.view.pod(name)
		ok := p != nil && running(p) && p.Status.ContainerStatuses[0].RestartCount == 0 &&
			p.Status.ContainerStatuses[0].State.Running != nil
		phase := "gone"
		if p != nil {
			phase = string(p.Status.Phase)
		}
		n.expect(ok, "%s runs on (%s)", name, phase)
	}
}
