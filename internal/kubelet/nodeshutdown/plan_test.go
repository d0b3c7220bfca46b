package nodeshutdown

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"pgregory.net/rapid"

	"github.com/gantry-project/gantry/test/wrappers"
)

func config(total, critical time.Duration, by ...int64) *kubeletconfig.KubeletConfiguration {
	c := &kubeletconfig.KubeletConfiguration{}
	c.ShutdownGracePeriod.Duration, c.ShutdownGracePeriodCriticalPods.Duration = total, critical
	for i := 0; i+1 < len(by); i += 2 {
		c.ShutdownGracePeriodByPodPriority = append(c.ShutdownGracePeriodByPodPriority,
			kubeletconfig.ShutdownGracePeriodByPodPriority{Priority: int32(by[i]), ShutdownGracePeriodSeconds: by[i+1]})
	}
	return c
}

func TestShutdownStepsOfConfiguration(t *testing.T) {
	for _, c := range []struct {
		in    *kubeletconfig.KubeletConfiguration
		want  string
		total time.Duration
	}{
		{config(0, 0), "[]", 0},
		{config(30*time.Second, 10*time.Second), "[{0 20s} {2000000000 10s}]", 30 * time.Second},
		{config(30*time.Second, 0), "[{0 30s} {2000000000 0s}]", 30 * time.Second},
		{config(10*time.Second, 30*time.Second), "[]", 0},
		{config(0, 0, 100000, 10, 0, 60, 10000, 180), "[{0 1m0s} {10000 3m0s} {100000 10s}]", 250 * time.Second},
	} {
		got := Steps(c.in)
		if s := fmt.Sprint(got); s != c.want || TotalPeriod(got) != c.total {
			t.Errorf("%s, %s; want %s", s, TotalPeriod(got), c.want)
		}
	}
}

func testPod(name string, priority int32, grace int64) *v1.Pod {
	return wrappers.MakePod().Name(name).Priority(priority).TerminationGracePeriodSeconds(grace).Obj()
}

func TestShutdownPlanByPriority(t *testing.T) {
	done := testPod("done", 0, 30)
	done.Status.Phase = v1.PodSucceeded
	noPriority := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "bare"}}
	pods := []*v1.Pod{testPod("mid", 10000, 30), testPod("below", -5, 30), testPod("low", 9999, 5),
		testPod("top", 2000001000, 600), done, noPriority}
	var lines []string
	for _, g := range Plan(Steps(config(0, 0, 100000, 10, 0, 60, 10000, 180, 50000, 7)), pods) {
		line := fmt.Sprintf("%d/%s:", g.Priority, g.Period)
		for _, p := range g.Pods {
			line += fmt.Sprintf(" %s %s", p.Pod.Name, p.Grace)
		}
		lines = append(lines, line)
	}
	want := "0/1m0s: below 30s low 5s bare 1m0s\n10000/3m0s: mid 30s\n100000/10s: top 10s"
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if Plan(nil, pods) != nil {
		t.Error("a plan without steps")
	}
}

func TestEveryRunningPodIsShutDownOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := config(0, 0)
		for i := range rapid.IntRange(1, 5).Draw(t, "steps") {
			c.ShutdownGracePeriodByPodPriority = append(c.ShutdownGracePeriodByPodPriority,
				kubeletconfig.ShutdownGracePeriodByPodPriority{
					Priority: rapid.Int32Range(-100, 100).Draw(t, "priority"), ShutdownGracePeriodSeconds: int64(i),
				})
		}
		var pods []*v1.Pod
		for i := range rapid.IntRange(0, 20).Draw(t, "pods") {
			pods = append(pods, testPod(fmt.Sprint(i), rapid.Int32Range(-200, 200).Draw(t, "of"),
				rapid.Int64Range(0, 10).Draw(t, "grace")))
		}
		seen := map[string]bool{}
		last, highest := int32(-1000), int32(-1000)
		for _, g := range Plan(Steps(c), pods) {
			if g.Priority < last {
				t.Fatalf("groups out of order: got %v, want at least %v", g.Priority, last)
			}
			last = g.Priority
			low := int32(1000)
			for _, turn := range g.Pods {
				if seen[turn.Pod.Name] || turn.Grace > g.Period {
					t.Fatalf("%s: twice, or %s of %s", turn.Pod.Name, turn.Grace, g.Period)
				}
				seen[turn.Pod.Name] = true
				low = min(low, *turn.Pod.Spec.Priority)
			}
			if low < highest {
				t.Fatalf("a Pod ends after one of higher priority: got %v, want at least %v", low, highest)
			}
			for _, turn := range g.Pods {
				highest = max(highest, *turn.Pod.Spec.Priority)
			}
		}
		if len(seen) != len(pods) {
			t.Fatalf("%d of %d", len(seen), len(pods))
		}
	})
}
