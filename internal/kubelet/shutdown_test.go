package kubelet_test

import (
	"context"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/gantry-project/gantry/internal/kubelet"
	"github.com/gantry-project/gantry/internal/kubelet/nodeshutdown"
	"github.com/gantry-project/gantry/internal/kubelet/nodeshutdown/manager"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/linux/logind"
	"github.com/gantry-project/gantry/internal/linux/logind/logindfake"
	"github.com/gantry-project/gantry/internal/reason"
)

// The machine says that it shuts down: Pods end by priority within their periods, the lock that
// holds the machine up is given back when they have ended, new Pods are refused, and when the
// shutdown is called off the node takes Pods again.
func TestGracefulNodeShutdown(t *testing.T) {
	t.Parallel()
	r := newRig(t, t.TempDir())
	bus, err := logindfake.Start(r.root)
	if err != nil {
		t.Fatal(err)
	}
	bus.OnLoad = func(s *logindfake.Service) { s.SetDelay(60_000_000) }
	var shutdownManager *manager.Manager
	r.with = func(o *kubelet.Options) {
		o.Dependencies.NodeShutdown = func() *reason.Refusal { return shutdownManager.Admit() }
	}
	config := &kubeletconfig.KubeletConfiguration{ShutdownGracePeriod: metav1.Duration{Duration: 4 * time.Second},
		ShutdownGracePeriodCriticalPods: metav1.Duration{Duration: 2 * time.Second}}
	shutdownManager = manager.New(manager.Deps{
		Bus: func(ctx context.Context) (manager.Session, error) {
			return logind.Dial(ctx, logind.Options{Address: bus.Address, ConfDir: r.root})
		},
		Steps: nodeshutdown.Steps(config), Pods: func() []*v1.Pod { return r.k.Pods() },
		KillPod: func(uid types.UID, e podplan.Termination) (<-chan struct{}, bool) { return r.k.KillPod(uid, e) },
		Event:   func(string, string) {}, Changed: func() {},
	})
	r.begin()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); shutdownManager.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done; bus.Close(); r.stop(); r.fake.Close() })

	critical := pod("critical", scriptContainer("app", runs))
	high := int32(2000001000)
	critical.Spec.Priority = &high
	for _, p := range []*v1.Pod{critical, pod("plain", scriptContainer("app", runs)),
		pod("deaf", scriptContainer("app", "trap '' TERM; while true; do sleep 1; done"))} {
		if _, err := r.api.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		r.running(p.Name)
	}
	r.eventually("the lock", func() bool { held, _, _ := bus.Locks(); return held == 1 })
	startedAt := time.Now()
	if err := bus.EmitPrepareForShutdown(true); err != nil {
		t.Fatal(err)
	}
	r.eventually("the release of the lock", func() bool { held, _, _ := bus.Locks(); return held == 0 })
	if took := time.Since(startedAt); took < time.Second {
		t.Errorf("the machine was held for %v, though a Pod ignores TERM for the 2 s of its group", took)
	}
	for _, name := range []string{"plain", "deaf", "critical"} {
		r.eventually("the last word of "+name, func() bool {
			p := r.get(name)
			return p != nil && (p.Status.Phase == v1.PodFailed || p.Status.Phase == v1.PodSucceeded)
		})
		s := r.get(name).Status
		target := slices.ContainsFunc(s.Conditions, func(c v1.PodCondition) bool {
			return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue && c.Reason == "TerminationByKubelet"
		})
		if !target || s.ContainerStatuses[0].State.Terminated == nil ||
			s.Phase == v1.PodFailed &&
				(s.Reason != "Terminated" || s.Message != "Pod was terminated in response to imminent node shutdown.") {
			t.Errorf("%s: got %+v, want it terminated, Failed only by the shutdown", name, s)
		}
	}
	if plain, last := containerFinishedAt(r.get("plain")), containerFinishedAt(r.get("critical")); last.Before(plain) {
		t.Errorf("the critical Pod ended at %v, before the plain one at %v", last, plain)
	}
	if _, err := r.api.CoreV1().Pods("default").Create(ctx, pod("late", scriptContainer("app", runs)),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("the refusal of a late Pod", func() bool {
		p := r.get("late")
		return p.Status.Phase == v1.PodFailed && p.Status.Reason == "NodeShutdown"
	})
	if err := bus.EmitPrepareForShutdown(false); err != nil {
		t.Fatal(err)
	}
	r.eventually("a new lock", func() bool { held, _, _ := bus.Locks(); return held == 1 })
	if _, err := r.api.CoreV1().Pods("default").Create(ctx, pod("again", scriptContainer("app", runs)),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.running("again")
}

func containerFinishedAt(p *v1.Pod) time.Time {
	return p.Status.ContainerStatuses[0].State.Terminated.FinishedAt.Time
}
