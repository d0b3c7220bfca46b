package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/hack/bench/result"
	gantry "github.com/gantry-project/gantry/internal/instance"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/linux/cgroup"
	"github.com/gantry-project/gantry/internal/linux/proc"
	"github.com/gantry-project/gantry/internal/trace"
	"github.com/gantry-project/gantry/test/instance"
)

const (
	evictionPods      = 700 << 20 // bytes of all Pods; the machine itself is short of nothing
	evictionThreshold = 100 << 20 // of which less than that may be left
)

// eviction measures how soon a Pod is told to end when all Pods together have eaten what they may:
// a hard threshold of memory, with the cgroup of all Pods as what runs short. "threshold" is when a
// reading of that cgroup, one each millisecond, first has less left than the threshold; "decided"
// is the entry Evicted of the Pod's journal, which stands for the threshold too when the kubelet
// was quicker than those readings; "TERM" that its first process was sent its stop signal, "KILL"
// that all of it was killed because it had not ended after the two seconds that a victim has. A
// victim that "ends" does so at its stop signal, one that "ignores-term" does not. "pass" is one of
// the eviction manager over 110 Pods.
func (b *bench) eviction(ctx context.Context) (figures []result.Figure, err error) {
	passes, err := b.evictionPass(ctx)
	if err != nil {
		return nil, err
	}
	figures = append(figures, passes...)
	config, err := evictionConfig()
	if err != nil {
		return nil, err
	}
	defer os.Remove(config)
	i, c, err := b.runningWith(ctx, instance.Options{Config: config})
	if i != nil {
		defer b.remove(i)
	}
	if err != nil {
		return nil, err
	}
	pods, err := podsOf(i)
	if err != nil {
		return nil, err
	}
	for _, kind := range []struct{ name, trap string }{{"ends", "exit 0"}, {"ignores-term", ""}} {
		stages := map[string][]time.Duration{}
		for k := range b.times(15) {
			name := fmt.Sprintf("%s-%d", kind.name, k)
			if err := evictOne(ctx, c, pods, eater(name, kind.trap), stages); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		for _, s := range []string{"threshold → decided", "decided → TERM", "threshold → TERM", "TERM → KILL"} {
			if len(stages[s]) > 0 {
				figures = append(figures, result.Durations(kind.name+"/"+s, stages[s]))
			}
		}
	}
	return figures, nil
}

// evictionConfig writes a KubeletConfiguration that leaves Pods little.
func evictionConfig() (string, error) {
	m, err := proc.Read("/")
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp("", "gantry-bench-eviction-*.yaml")
	if err != nil {
		return "", err
	}
	_, err = fmt.Fprintf(f, `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
enforceNodeAllocatable: [pods]
systemReserved: {memory: "%d"}
kernelMemcgNotification: true
evictionHard: {memory.available: "%d"}
evictionPressureTransitionPeriod: 1s
`, int64(m.MemoryBytes)-evictionPods, evictionThreshold)
	return f.Name(), errors.Join(err, f.Close())
}

// podsCgroup is the cgroup of all Pods of an instance.
type podsCgroup struct {
	tree *cgroup.Tree
	path string
}

func podsOf(i *instance.Instance) (podsCgroup, error) {
	for _, pattern := range []string{cgroup.Mount + "/memory/*%s*/kubepods", cgroup.Mount + "/*%s*/*kubepods*"} {
		found, _ := filepath.Glob(fmt.Sprintf(pattern, gantry.ID(i.Dir)))
		if len(found) == 0 {
			continue
		}
		at := path.Join("/", path.Base(path.Dir(found[0])), path.Base(found[0]))
		tree, err := cgroup.Open(cgroup.Options{Root: at})
		return podsCgroup{tree, at}, err
	}
	return podsCgroup{}, errors.New("the cgroup of the Pods is not there")
}

// left is how much memory the Pods have left.
func (p podsCgroup) left() (int64, error) {
	u, err := p.tree.MemoryUse(p.path)
	if err == nil && u.Limit == 0 {
		err = errors.New("the cgroup of all Pods has no limit")
	}
	return int64(u.Limit) - int64(u.WorkingSet), err
}

// eater is a Pod that eats memory, some 60 MiB a second, and does something when it is told to end.
// It tolerates MemoryPressure: the node may still show that of the Pod before.
func eater(name, trap string) *v1.Pod {
	p := sleeper(name)
	p.Spec.RestartPolicy = v1.RestartPolicyNever
	p.Spec.Tolerations = []v1.Toleration{{Key: v1.TaintNodeMemoryPressure, Operator: v1.TolerationOpExists}}
	memory := v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory, SizeLimit: resource.NewQuantity(2<<30,
		resource.BinarySI)}
	p.Spec.Volumes = []v1.Volume{{Name: "memory", VolumeSource: v1.VolumeSource{EmptyDir: &memory}}}
	p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "memory", MountPath: "/memory"}}
	p.Spec.Containers[0].Command = []string{"sh", "-c", fmt.Sprintf("trap %q TERM; i=0; while :; do "+
		"dd if=/dev/zero of=/memory/$i bs=1M count=3 2>/dev/null; i=$((i+1)); sleep 0.05; done", trap)}
	return p
}

// short waits until the Pods have less left than the threshold, and returns when that was read; the
// zero time when ctx ends before.
func (p podsCgroup) short(ctx context.Context) (time.Time, error) {
	for ctx.Err() == nil {
		left, err := p.left()
		if err != nil || left < evictionThreshold {
			return time.Now(), err
		}
		_ = sleep(ctx, time.Millisecond)
	}
	return time.Time{}, nil
}

// phase returns an error that tells a Pod's phase, unless it has ended.
func (c *cluster) phase(ctx context.Context, name string) error {
	now, err := c.client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
	if err == nil && now.Status.Phase != v1.PodFailed && now.Status.Phase != v1.PodSucceeded {
		err = fmt.Errorf("pod %s is %s", name, now.Status.Phase)
	}
	return err
}

// statusOf returns an error that tells a Pod's status.
func (c *cluster) statusOf(ctx context.Context, name string) error {
	now, err := c.client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return fmt.Errorf("pod %s: %s", name, now.Status.String())
}

// evictOne has a Pod eat until it is evicted, and adds what its journal says of that.
func evictOne(ctx context.Context, c *cluster, pods podsCgroup, p *v1.Pod, stages map[string][]time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := c.create(ctx, p); err != nil {
		return err
	}
	reading, ended := context.WithCancel(ctx)
	defer ended()
	var wait errgroup.Group
	wait.Go(func() error {
		defer ended()
		return instance.Poll(ctx, 50*time.Millisecond, func() error { return c.phase(ctx, p.Name) })
	})
	met, err := pods.short(reading)
	if err := errors.Join(err, wait.Wait()); err != nil {
		return errors.Join(err, c.statusOf(context.WithoutCancel(ctx), p.Name))
	}
	life, err := c.lifeOf(ctx, p.Name)
	if err != nil {
		return err
	}
	if err := addEviction(life, met, stages); err != nil {
		return err
	}
	if err := c.empty(ctx); err != nil {
		return err
	}
	return c.noPressure(ctx)
}

// addEviction adds the stages of one eviction. met is the zero time where nobody but the kubelet
// saw the threshold met.
func addEviction(life trace.PodTrace, met time.Time, stages map[string][]time.Duration) error {
	decided, a := first(life, func(f journal.Fact) bool { _, ok := f.(journal.Evicted); return ok })
	term, b := first(life, stopStep("TERM"))
	if !a || !b {
		return fmt.Errorf("the journal of pod/%s does not say its eviction", life.Ref.Name)
	}
	if met.IsZero() {
		met = decided.At
	}
	add := func(name string, d time.Duration) { stages[name] = append(stages[name], d) }
	add("threshold → decided", decided.At.Sub(met))
	add("decided → TERM", term.At.Sub(decided.At))
	add("threshold → TERM", term.At.Sub(met))
	if kill, ok := first(life, stopStep("KILL")); ok {
		add("TERM → KILL", kill.At.Sub(term.At))
	}
	return nil
}

func stopStep(step string) func(journal.Fact) bool {
	return func(f journal.Fact) bool {
		s, ok := f.(journal.StopStep)
		return ok && s.Step == step
	}
}

// noPressure waits until the node shows no MemoryPressure: it takes Pods without requests in again.
func (c *cluster) noPressure(ctx context.Context) error {
	return instance.Poll(ctx, 100*time.Millisecond, func() error {
		list, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, x := range list.Items[0].Status.Conditions {
			if x.Type == v1.NodeMemoryPressure && x.Status == v1.ConditionTrue {
				return errors.New("the node shows MemoryPressure")
			}
		}
		return nil
	})
}
